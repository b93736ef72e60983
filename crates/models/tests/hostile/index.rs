//! `model.safetensors.index.json`: whatever it claims, it names plain files, each tensor once.

use models::layout::WeightIndex;
use serde_json::{Map, Value};

fn assert_sound(bytes: &[u8]) {
    let Ok(index) = WeightIndex::parse(bytes) else { return };
    assert!(!index.tensors.is_empty() && !index.files.is_empty());
    assert!(index.files.windows(2).all(|pair| pair[0] < pair[1]), "sorted, each once");
    assert!(index.tensors.values().all(|file| *file < index.files.len()));
    for name in &index.files {
        let path = std::path::Path::new(name);
        assert_eq!(path.components().count(), 1, "{name:?}");
        assert_eq!(path.file_name().and_then(|name| name.to_str()), Some(name.as_str()));
        assert!(name.ends_with(".safetensors") && !name.starts_with('.'));
    }
}

const CORPUS: &[&str] = &[
    r#"{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#,
    r#"{"metadata":{"total_size":1e999},"weight_map":{"a":"1.safetensors"}}"#,
    r#"{"metadata":{"total_size":-1},"weight_map":{"a":"../1.safetensors"}}"#,
    r#"{"weight_map":{"a":"1.safetensors"},"weight_map":{"b":"2.safetensors"}}"#,
    r#"{"weight_map":[]}"#,
    r#"{"weight_map":{"a":null}}"#,
    r#"{"weight_map":{}}"#,
    r#"["weight_map"]"#,
    "{\"weight_map\":{\"a\":\"\\u0000.safetensors\"}}",
];

#[test]
fn whatever_the_bytes_are_the_index_is_sound() {
    for text in CORPUS {
        assert_sound(text.as_bytes());
        for end in 0..text.len() {
            assert!(WeightIndex::parse(&text.as_bytes()[..end]).is_err(), "{}", &text[..end]);
        }
        let mut bytes = text.as_bytes().to_vec();
        for place in 0..bytes.len() {
            let honest = std::mem::replace(&mut bytes[place], b'/');
            assert_sound(&bytes);
            bytes[place] = b'"';
            assert_sound(&bytes);
            bytes[place] = honest;
        }
    }
    bolero::check!().for_each(assert_sound);
}

#[test]
fn whatever_names_are_claimed_the_index_is_sound() {
    const PIECES: &[&str] = &[
        "m",
        ".",
        "..",
        "/",
        "\\",
        "\0",
        ".safetensors",
        "safetensors",
        "~",
        "a b",
        "é",
        "\n",
        "C:",
        "-",
        "",
    ];
    type Claims = Vec<(u8, Vec<u8>)>;
    bolero::check!().with_type::<Claims>().for_each(|claims| {
        let file = |pieces: &[u8]| -> String {
            pieces.iter().map(|piece| PIECES[usize::from(*piece) % PIECES.len()]).collect()
        };
        let map: Map<String, Value> = claims
            .iter()
            .map(|(name, pieces)| {
                (format!("t{name}"), Value::String(file(pieces) + ".safetensors"))
            })
            .collect();
        assert_sound(serde_json::json!({"weight_map": map}).to_string().as_bytes());
    });
}

#[test]
fn what_is_there_twice_is_refused() {
    for text in [CORPUS[3], r#"{"weight_map":{"a":"1.safetensors","a":"1.safetensors"}}"#] {
        let error = WeightIndex::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("twice") || error.contains("duplicate field"), "{error}");
    }
}
