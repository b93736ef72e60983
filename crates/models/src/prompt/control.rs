//! Control tokens.

/// A rendered conversation: text, and which parts of it came from the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    text: String,
}

impl Rendered {
    /// The whole text, as the model's prompt reads.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn new(text: String) -> Self {
        Rendered { text }
    }
}
