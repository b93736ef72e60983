//! `config.json`, read so that no key is passed over unseen.

pub mod geometry;
pub mod inert;
pub mod keys;
pub mod rope;
pub mod sliding;

use std::path::Path;

use foundation::DType;
use serde_json::{Map, Value};

pub use self::{geometry::Geometry, keys::Keys, sliding::Sliding};
use crate::{
    error::{Error, Finding},
    files::{MAX_CONFIG, read_json_object},
};

/// A parsed `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    root: Map<String, Value>,
}

impl Config {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_json_object(path, MAX_CONFIG).map(|root| Config { root })
    }

    /// A configuration that is already parsed.
    pub fn from_object(root: Map<String, Value>) -> Self {
        Config { root }
    }

    /// The object itself.
    pub fn root(&self) -> &Map<String, Value> {
        &self.root
    }

    /// The first entry of `architectures`.
    pub fn architecture(&self) -> Option<&str> {
        self.root.get("architectures")?.as_array()?.first()?.as_str()
    }

    /// `model_type`.
    pub fn model_type(&self) -> Option<&str> {
        self.root.get("model_type")?.as_str()
    }

    /// The type that the checkpoint says its weights have: `dtype` of transformers 5, `torch_dtype` before. It is for
    /// people; the tensors' own headers decide.
    pub fn dtype(&self) -> Option<DType> {
        let text = ["dtype", "torch_dtype"].iter().find_map(|key| self.root.get(*key)?.as_str())?;
        text.parse().ok()
    }

    /// The whole number above 0 under `key`, in the text model's part where there is one: for people, where the
    /// configuration as a whole cannot be understood.
    pub fn count(&self, key: &str) -> Option<usize> {
        let object = self.root.get("text_config").and_then(Value::as_object).unwrap_or(&self.root);
        let number = object.get(key)?.as_u64().filter(|number| *number > 0)?;
        usize::try_from(number).ok()
    }

    /// `quant_method` of `quantization_config`, if there is one.
    pub fn quantization(&self) -> Option<String> {
        let quantization = self.root.get("quantization_config").filter(|value| !value.is_null())?;
        let method = quantization.get("quant_method").and_then(Value::as_str);
        Some(method.unwrap_or("of an unnamed method").to_owned())
    }

    /// That the checkpoint is quantised and its format has no line in `FORMATS`.
    pub fn quantization_finding(&self) -> Option<Finding> {
        self.quantization().map(|method| {
            let supported = crate::format::names().join(", ");
            Finding::error(
                "quantization_config",
                format!("asks for {method} weights; supported are {supported}"),
            )
            .hint("use the checkpoint in one of these types")
        })
    }
}
