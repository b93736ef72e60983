//! How weights are stored. A format is one file and one line in [`FORMATS`]; any family composes with any format.

pub mod dense;

use crate::{
    catalog::TensorInfo,
    weights::{TensorOrigin, TensorStorage},
};

/// Every format.
pub const FORMATS: &[Format] = &[dense::BF16, dense::F16, dense::F32];

/// A way to store a weight.
#[derive(Debug)]
pub struct Format {
    /// Short name, as people write it.
    pub name: &'static str,
    /// The storage of a weight that lies at `origin` within `tensor`, if the tensor is in this format.
    pub bind: fn(tensor: &TensorInfo, origin: TensorOrigin) -> Option<TensorStorage>,
}

/// The names of all formats.
pub fn names() -> Vec<&'static str> {
    FORMATS.iter().map(|format| format.name).collect()
}

/// The storage of a weight that lies at `origin` within `tensor`; `None` if no format knows it.
pub fn bind(tensor: &TensorInfo, origin: TensorOrigin) -> Option<TensorStorage> {
    FORMATS.iter().find_map(|format| (format.bind)(tensor, origin.clone()))
}
