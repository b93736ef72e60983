//! JSON in which a repeated key is an error and the order is kept.

use std::{collections::HashSet, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// The entries of a JSON object, in order. Where other readers let the last of two equal keys win, two readers of one
/// file may see two different models; here it is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueMap<V>(pub Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueVisitor(PhantomData))
    }
}

struct UniqueVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for UniqueVisitor<V> {
    type Value = UniqueMap<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object without repeated keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Vec<(String, V)> = Vec::new();
        let mut seen = HashSet::new();
        while let Some((key, value)) = map.next_entry::<String, V>()? {
            if !seen.insert(key.clone()) {
                return Err(twice(&key));
            }
            entries.push((key, value));
        }
        Ok(UniqueMap(entries))
    }
}

fn twice<E: Error>(key: &str) -> E {
    E::custom(format!("the key {:?} is there twice", start(key)))
}

/// As much of a key as a message can bear.
fn start(key: &str) -> String {
    key.chars().take(80).collect()
}

/// A JSON value without repeated keys at any depth. Its errors name the key that they lie under.
pub struct UniqueValue(pub Value);

impl<'de> Deserialize<'de> for UniqueValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(UniqueValue)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueValue(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(twice(&key));
            }
            let under = |error| A::Error::custom(format!("{}: {error}", start(&key)));
            let UniqueValue(value) = map.next_value().map_err(under)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_the_library_reads_and_its_errors_name_their_key() {
        let text = r#"{"a": [null, true, -1, 18446744073709551615, 0.5, "x"], "b": {"c": {}}}"#;
        let UniqueValue(value) = serde_json::from_str(text).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        let error =
            |text: &str| serde_json::from_str::<UniqueValue>(text).err().unwrap().to_string();
        let twice = error(r#"{"a": {"b": 1, "b": 2}}"#);
        assert!(twice.starts_with("a: the key \"b\" is there twice at line 1"), "{twice}");
        let infinite = error(r#"{"rope": {"theta": 1e999}}"#);
        assert!(infinite.starts_with("rope: theta: number out of range at line 1"), "{infinite}");
        let nan = error(r#"{"eps": NaN}"#);
        assert!(nan.starts_with("eps: expected value at line 1"), "{nan}");
        let deep = error(&"[".repeat(100_000));
        assert!(deep.contains("recursion limit"), "{deep}");
    }

    #[test]
    fn keeps_order_and_refuses_a_repeated_key() {
        let map: UniqueMap<u32> = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
        assert_eq!(map.0, [("b".to_owned(), 1), ("a".to_owned(), 2)]);
        let error = serde_json::from_str::<UniqueMap<u32>>(r#"{"b":1,"b":1}"#).unwrap_err();
        assert!(error.to_string().contains("\"b\" is there twice"), "{error}");
    }
}
