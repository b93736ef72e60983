//! JSON objects in which a repeated key is an error and the order is kept.

use std::{collections::HashSet, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

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
                return Err(A::Error::custom(format!("the key {key:?} is there twice")));
            }
            entries.push((key, value));
        }
        Ok(UniqueMap(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::UniqueMap;

    #[test]
    fn keeps_order_and_refuses_a_repeated_key() {
        let map: UniqueMap<u32> = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
        assert_eq!(map.0, [("b".to_owned(), 1), ("a".to_owned(), 2)]);
        let error = serde_json::from_str::<UniqueMap<u32>>(r#"{"b":1,"b":1}"#).unwrap_err();
        assert!(error.to_string().contains("\"b\" is there twice"), "{error}");
    }
}
