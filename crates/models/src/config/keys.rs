//! A configuration object that remembers which of its keys were understood.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::inert;
use crate::error::{Finding, Findings};

/// Typed access to a JSON object. What is wrong with a value becomes a finding and the reader goes on with a harmless
/// stand-in, so that one pass tells everything; [`Keys::finish`] adds every key that nobody asked for.
///
/// Absent keys take the value that the oracle's configuration class gives them: a checkpoint relies on these.
pub struct Keys<'a> {
    object: &'a Map<String, Value>,
    prefix: String,
    known: BTreeSet<&'a str>,
    ignored: &'a [String],
    used_ignores: BTreeSet<&'a str>,
    findings: Findings,
}

impl<'a> Keys<'a> {
    /// A reader of `object`. Keys in `ignored` may stay unknown.
    pub fn new(object: &'a Map<String, Value>, ignored: &'a [String]) -> Self {
        Keys {
            object,
            prefix: String::new(),
            known: BTreeSet::new(),
            ignored,
            used_ignores: BTreeSet::new(),
            findings: Findings::default(),
        }
    }

    /// The raw value; the key counts as understood. `None` if it is absent.
    pub fn raw(&mut self, key: &str) -> Option<&'a Value> {
        let (key, value) = self.object.get_key_value(key)?;
        self.known.insert(key);
        Some(value)
    }

    /// Whether the key is there, without a claim to understand it.
    pub fn has(&self, key: &str) -> bool {
        self.object.get(key).is_some_and(|value| !value.is_null())
    }

    /// Marks keys as understood and without effect; the caller says why in a comment.
    pub fn inert(&mut self, keys: &[&str]) {
        for key in keys {
            self.raw(key);
        }
    }

    /// A whole number in `1..=max`.
    pub fn size(&mut self, key: &str, default: usize, max: usize) -> usize {
        self.nullable_size(key, Some(default), max).unwrap_or(default)
    }

    /// A whole number in `1..=max`; `default` if absent, `None` if null.
    pub fn nullable_size(
        &mut self,
        key: &str,
        default: Option<usize>,
        max: usize,
    ) -> Option<usize> {
        let value = match self.raw(key) {
            None => return default,
            Some(Value::Null) => return None,
            Some(value) => value,
        };
        let whole = whole_number(value).filter(|number| (1..=max).contains(number));
        if whole.is_none() {
            self.wrong(key, value, &format!("a whole number from 1 to {max}"));
        }
        whole.or(default)
    }

    /// A whole number in `0..=max`.
    pub fn count(&mut self, key: &str, default: usize, max: usize) -> usize {
        let Some(value) = self.raw(key).filter(|value| !value.is_null()) else { return default };
        let whole = whole_number(value).filter(|number| *number <= max);
        if whole.is_none() {
            self.wrong(key, value, &format!("a whole number from 0 to {max}"));
        }
        whole.unwrap_or(default)
    }

    /// A number above zero that float32 holds; `default` if absent or null.
    pub fn positive(&mut self, key: &str, default: f64) -> f64 {
        self.nullable_positive(key, Some(default)).unwrap_or(default)
    }

    /// A number above zero that float32 holds; `default` if absent, `None` if null.
    pub fn nullable_positive(&mut self, key: &str, default: Option<f64>) -> Option<f64> {
        let value = match self.raw(key) {
            None => return default,
            Some(Value::Null) => return None,
            Some(value) => value,
        };
        let number = positive_number(value);
        if number.is_none() {
            self.wrong(key, value, "a number above 0 that float32 holds");
        }
        number.or(default)
    }

    /// A number above zero that must be there.
    pub fn required_positive(&mut self, key: &str) -> f64 {
        match self.nullable_positive(key, None) {
            Some(number) => number,
            None => {
                if !self.has(key) {
                    self.error(key, "is missing");
                }
                1.0
            }
        }
    }

    /// True or false; `default` if absent or null.
    pub fn flag(&mut self, key: &str, default: bool) -> bool {
        let Some(value) = self.raw(key).filter(|value| !value.is_null()) else { return default };
        match value.as_bool() {
            Some(flag) => flag,
            None => {
                self.wrong(key, value, "true or false");
                default
            }
        }
    }

    /// Text; `None` if absent or null.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        let value = self.raw(key).filter(|value| !value.is_null())?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong(key, value, "a string");
        }
        text
    }

    /// A list whose elements `read` understands; `None` if absent or null.
    pub fn list<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.raw(key).filter(|value| !value.is_null())?;
        let list = value.as_array().and_then(|list| list.iter().map(read).collect());
        if list.is_none() {
            self.wrong(key, value, wanted);
        }
        list
    }

    /// A reader of the object under `key`; `None` if absent, null or empty. Give it back with [`Keys::close`].
    pub fn object(&mut self, key: &str) -> Option<Keys<'a>> {
        let value = self.raw(key).filter(|value| !value.is_null())?;
        let Some(object) = value.as_object() else {
            self.wrong(key, value, "an object");
            return None;
        };
        let mut child = Keys::new(object, self.ignored);
        child.prefix = self.path(key) + ".";
        (!object.is_empty()).then_some(child)
    }

    /// Takes over what `child` found, its unknown keys included.
    pub fn close(&mut self, child: Keys<'a>) {
        let (findings, used) = child.into_parts();
        self.findings.extend(findings);
        self.used_ignores.extend(used);
    }

    /// Records that `key` is wrong.
    pub fn error(&mut self, key: &str, message: impl Into<String>) {
        self.push(Finding::error(self.path(key), message));
    }

    /// Records a finding.
    pub fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Whether something is wrong so far.
    pub fn has_errors(&self) -> bool {
        self.findings.has_errors()
    }

    /// The key with the names of the objects around it.
    pub fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Everything found; every key that was not asked for, is not inert and says something is an error.
    pub fn finish(self) -> Findings {
        let ignored = self.ignored;
        let (mut findings, used) = self.into_parts();
        for name in ignored {
            if !used.contains(name.as_str()) {
                let message = "was to be ignored, but it is no unknown key of this configuration";
                findings.push(Finding::warning(name.clone(), message));
            }
        }
        findings
    }

    fn into_parts(mut self) -> (Findings, BTreeSet<&'a str>) {
        let object = self.object;
        for (key, value) in object {
            let says_nothing = value.is_null() || *value == Value::Bool(false);
            if self.known.contains(key.as_str()) || inert::is_inert(key) {
                continue;
            }
            let path = self.path(key);
            let ignore = self.ignored.iter().find(|name| **name == *key || **name == path);
            if let Some(name) = ignore {
                self.used_ignores.insert(name);
                let message = format!("is {} and is ignored, as asked", shown(value));
                self.findings.push(Finding::warning(path, message));
            } else if !says_nothing {
                let message = format!("is {}; this key is not understood", shown(value));
                let hint = format!(
                    "if it does not change the model's meaning: --ignore-config-key {path}"
                );
                self.findings.push(Finding::error(path, message).hint(hint));
            }
        }
        (self.findings, self.used_ignores)
    }

    fn wrong(&mut self, key: &str, value: &Value, wanted: &str) {
        self.error(key, format!("is {}, wanted {wanted}", shown(value)));
    }
}

/// Python writes some whole numbers as floats.
fn whole_number(value: &Value) -> Option<usize> {
    if let Some(number) = value.as_u64() {
        return usize::try_from(number).ok();
    }
    let number = value.as_f64()?;
    (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number as usize)
}

/// A number above zero that stays one in float32, in which everything is computed.
pub fn positive_number(value: &Value) -> Option<f64> {
    let range = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
    value.as_f64().filter(|number| range.contains(number))
}

/// The value as JSON, shortened.
pub fn shown(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn every_unknown_key_is_told_with_its_value_and_the_way_around() {
        let root =
            object(json!({"a": 1, "b": [1, 2], "c": null, "d": false, "use_cache": true, "e": 2}));
        let ignored = ["e".to_owned()];
        let mut keys = Keys::new(&root, &ignored);
        assert_eq!(keys.size("a", 7, 10), 1);
        let text = keys.finish().into_result().unwrap_err().to_string();
        assert_eq!(
            text,
            "b: is [1,2]; this key is not understood \
             (if it does not change the model's meaning: --ignore-config-key b)\n\
             e: is 2 and is ignored, as asked"
        );
    }

    #[test]
    fn nested_keys_carry_their_path_and_can_be_ignored_by_it() {
        let root = object(json!({"rope": {"x": 1, "y": 2}}));
        let ignored = ["rope.y".to_owned(), "z".to_owned()];
        let mut keys = Keys::new(&root, &ignored);
        let child = keys.object("rope").unwrap();
        keys.close(child);
        let text = keys.finish().into_result().unwrap_err().to_string();
        assert!(text.contains("rope.x: is 1; this key is not understood"), "{text}");
        assert!(text.contains("rope.y: is 2 and is ignored"), "{text}");
        assert!(text.contains("z: was to be ignored, but it is no unknown key"), "{text}");
    }

    #[test]
    fn absent_and_null_differ_where_they_mean_different_things() {
        let root = object(json!({"null": null, "float": 8.0, "zero": 0, "text": "x", "big": 11}));
        let mut keys = Keys::new(&root, &[]);
        assert_eq!(keys.nullable_size("absent", Some(4), 10), Some(4));
        assert_eq!(keys.nullable_size("null", Some(4), 10), None);
        assert_eq!(keys.nullable_size("float", None, 10), Some(8));
        assert!(!keys.has_errors());
        for key in ["zero", "text", "big"] {
            assert_eq!(keys.size(key, 4, 10), 4);
        }
        let text = keys.finish().into_result().unwrap_err().to_string();
        assert!(text.contains("zero: is 0, wanted a whole number from 1 to 10"), "{text}");
        assert!(text.contains("text: is \"x\", wanted"), "{text}");
        assert!(text.contains("big: is 11, wanted"), "{text}");
    }
}
