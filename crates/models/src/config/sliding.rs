//! Which layers see a window of the sequence instead of all of it.

use serde_json::Value;

use super::keys::Keys;

/// Largest window that is read.
const MAX_WINDOW: usize = 1 << 30;

/// The layers that slide, and how far each of them looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sliding {
    /// Of each layer: whether it slides.
    pub layers: Vec<bool>,
    /// The window of those that do, in tokens; `None`: none is given.
    pub window: Option<usize>,
}

impl Sliding {
    /// No layer slides, and no key is asked.
    pub fn none(_: &mut Keys<'_>, layers: usize) -> Self {
        Sliding { layers: vec![false; layers], window: None }
    }

    /// Every layer slides if `sliding_window` is a number. An absent key means `absent`, an explicit null none.
    pub fn everywhere(keys: &mut Keys<'_>, layers: usize, absent: Option<usize>) -> Self {
        let window = Self::window(keys, absent);
        Sliding { layers: vec![window.is_some(); layers], window }
    }

    /// The layers that `layer_types` says, else those for which `pattern` is true.
    pub fn by_type(
        keys: &mut Keys<'_>,
        layers: usize,
        window: Option<usize>,
        pattern: impl Fn(usize) -> bool,
    ) -> Self {
        let wanted = "a list of \"full_attention\" and \"sliding_attention\"";
        let layers = match keys.list("layer_types", wanted, slides) {
            None => (0..layers).map(pattern).collect(),
            Some(list) if list.len() == layers => list,
            Some(list) => {
                let message =
                    format!("has {} entries, but num_hidden_layers is {layers}", list.len());
                keys.error("layer_types", message);
                vec![false; layers]
            }
        };
        Sliding { layers, window }
    }

    /// `sliding_window`: `absent` if absent, none if null.
    pub fn window(keys: &mut Keys<'_>, absent: Option<usize>) -> Option<usize> {
        keys.nullable_size("sliding_window", absent, MAX_WINDOW)
    }

    /// The window of each layer. A window that no sequence can outgrow is none: the layer then shares the cache of the
    /// full ones.
    pub fn windows(&self, keys: &mut Keys<'_>, max_positions: usize) -> Vec<Option<usize>> {
        if self.window.is_none() && self.layers.contains(&true) {
            keys.error("sliding_window", "is missing, but there are layers of sliding attention");
        }
        let window = self.window.filter(|window| *window < max_positions);
        self.layers.iter().map(|slides| window.filter(|_| *slides)).collect()
    }
}

/// One entry of `layer_types`.
fn slides(value: &Value) -> Option<bool> {
    match value.as_str()? {
        "full_attention" => Some(false),
        "sliding_attention" => Some(true),
        _ => None,
    }
}
