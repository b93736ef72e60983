//! Effective settings: what holds, and why.

use serde::Serialize;

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The caller said so.
    Given,
    /// A file of the checkpoint says so (`generation_config.json`, `config.json`).
    Checkpoint,
    /// Nobody said anything.
    Default,
    /// Follows from the device or from other settings.
    Derived,
}

/// One setting in effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Its name: `device`, `max_sequence_tokens`, `temperature`.
    pub name: &'static str,
    /// Its value, for people.
    pub value: String,
    /// Where the value came from.
    pub origin: Origin,
    /// Why it is so, where the origin alone does not say.
    pub why: String,
}
