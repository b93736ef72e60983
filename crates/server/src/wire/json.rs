//! Bytes to JSON, distrustfully: UTF-8, one value for a key, bounded depth and size.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::fields::quoted;

/// Most values (numbers, texts, arrays, ...) in one body. A parsed value takes tens of bytes where its text may take
/// two, so the limit on the body's bytes alone would not bound memory.
pub const MAX_VALUES: usize = 2_000_000;

/// Why a body is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not text.
    #[error("the body is not valid UTF-8: bad byte at offset {0}")]
    Utf8(usize),
    /// Not JSON, nested too deeply, too many values, or a key given twice.
    #[error("the body is not valid JSON: {0}")]
    Syntax(String),
    /// JSON, but no object.
    #[error("the body must be a JSON object, not {0}")]
    NotAnObject(&'static str),
}

/// Parses a body into an object.
pub fn parse_object(body: &[u8]) -> Result<Map<String, Value>, JsonError> {
    let text = std::str::from_utf8(body).map_err(|error| JsonError::Utf8(error.valid_up_to()))?;
    let left = Cell::new(MAX_VALUES);
    let mut parser = serde_json::Deserializer::from_str(text);
    let syntax = |error: serde_json::Error| JsonError::Syntax(error.to_string());
    let value = Strict(&left).deserialize(&mut parser).map_err(syntax)?;
    parser.end().map_err(syntax)?;
    match value {
        Value::Object(map) => Ok(map),
        other => Err(JsonError::NotAnObject(kind_of(&other))),
    }
}

/// What a value is, for messages: `a number`.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Builds a [`Value`], counting down the values left.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a Cell<usize>);

impl Strict<'_> {
    fn spend<E: Error>(&self) -> Result<(), E> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.ok_or_else(|| E::custom(format!("more than {MAX_VALUES} values")))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.spend()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("key {} is given twice", quoted(&key))));
            }
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> String {
        parse_object(body).unwrap_err().to_string()
    }

    #[test]
    fn reads_an_object_in_order() {
        let body = br#"{"b": [1, -2, 2.5, null], "a": {"c": "\u00e9", "d": true}}"#;
        let map = parse_object(body).unwrap();
        assert_eq!(map.keys().collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(Value::Object(map), serde_json::from_slice::<Value>(body).unwrap());
    }

    #[test]
    fn names_what_is_wrong() {
        assert_eq!(
            message(b"{\"a\": \"\xff\"}"),
            "the body is not valid UTF-8: bad byte at offset 7"
        );
        assert!(message(b"{\"a\": {\"b\": 1, \"b\": 1}}").contains("key \"b\" is given twice"));
        assert!(message(b"[1]").contains("not an array"));
        assert!(message(b"").contains("not valid JSON"));
        assert!(message(b"{} {}").contains("trailing"));
        assert!(message(b"{\"a\": 1e999}").contains("out of range"));
        assert!(message(br#"{"a": "\ud800"}"#).contains("not valid JSON"));
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
        assert!(message(deep.as_bytes()).contains("recursion limit"));
        let wide = format!("{{\"a\": [{}0]}}", "0,".repeat(MAX_VALUES));
        assert!(message(wide.as_bytes()).contains("more than 2000000 values"));
    }
}
