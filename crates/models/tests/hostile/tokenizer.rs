//! `tokenizer.json`: whatever it says, it is refused, or it encodes and decodes without a panic, and a stream of tokens
//! is the whole decode.

use foundation::TokenId;
use models::prompt::{DecodeStream, PromptError, Tokenizer};
use serde_json::{Map, Value, json};

use crate::{
    fixture,
    mutate::{Place, change, places, put, values},
};

/// One for each kind there is: byte-level, sentencepiece, and a second vocabulary of bytes.
const NAMES: &[&str] = &["qwen3", "gemma3", "llama"];

fn content(name: &str) -> Value {
    let text = std::fs::read(fixture(name).join("tokenizer.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn load(root: &Value) -> Result<Tokenizer, PromptError> {
    Tokenizer::new(root.to_string().as_bytes(), &Map::new())
}

#[test]
fn an_added_token_that_another_entry_moves_is_refused() {
    let mut taken = content("qwen3");
    taken["model"]["vocab"]["zz"] = json!(600);
    let mut far = content("qwen3");
    let last = far["added_tokens"].as_array().unwrap().len() - 1;
    far["added_tokens"][last]["id"] = json!(9999);
    for root in [taken, far] {
        let text = load(&root).map(drop).unwrap_err().to_string();
        assert!(text.contains("the added token \"<"), "{text}");
    }
    load(&content("qwen3")).unwrap();
}

/// Everything that is asked of a tokenizer, with `text` and with ids within and beyond its vocabulary.
fn exercise(tokenizer: &Tokenizer, text: &str, ids: &[u16]) {
    let vocabulary = tokenizer.vocab_size();
    for add_special in [false, true] {
        let encoded =
            [tokenizer.encode(text, add_special), tokenizer.encode_trusted(text, add_special)];
        encoded.iter().flatten().for_each(|ids| assert_streams(tokenizer, ids));
    }
    let wide = |id: &u16| TokenId((usize::from(*id) * vocabulary / 60_000) as u32);
    let ids: Vec<TokenId> = ids.iter().map(wide).chain([TokenId(u32::MAX)]).collect();
    assert_streams(tokenizer, &ids);
    for id in ids {
        assert_eq!(tokenizer.token_text(id).is_some(), tokenizer.token_bytes(id).is_some());
        tokenizer.is_special(id);
    }
}

fn assert_streams(tokenizer: &Tokenizer, ids: &[TokenId]) {
    for skip_special in [false, true] {
        let mut stream = DecodeStream::new(tokenizer, skip_special);
        let mut text: String = ids.iter().map(|id| stream.push(*id)).collect();
        text += &stream.finish();
        assert_eq!(text, tokenizer.decode(ids, skip_special), "{ids:?}");
    }
}

const TEXTS: &[&str] = &[
    "",
    " ",
    "Hello, wörld! 東京 😀\u{200d}\u{fe0f}\n\n\t  x",
    "<|im_start|>user\n<think></think><|im_end|><bos><start_of_turn>",
    "\0\u{1}\u{7f}\u{85}\u{a0}\u{2028}\u{feff}\u{fffd}\u{10ffff}",
    "▁▁ĠĊ<0x0A><0xFF><0x",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

#[test]
fn any_text_and_any_tokens_pass_through_the_fixtures_tokenizers() {
    let tokenizers: Vec<Tokenizer> =
        NAMES.iter().map(|name| load(&content(name)).unwrap()).collect();
    for tokenizer in &tokenizers {
        TEXTS.iter().for_each(|text| exercise(tokenizer, text, &[0, 1, 255, 59_999]));
    }
    type Input = (u8, String, Vec<u16>);
    bolero::check!().with_iterations(500).with_type::<Input>().for_each(|(which, text, ids)| {
        exercise(&tokenizers[usize::from(*which) % tokenizers.len()], text, ids);
    });
}

#[test]
fn a_long_run_of_one_character_takes_no_time() {
    for name in NAMES {
        let tokenizer = load(&content(name)).unwrap();
        for run in ["a", " ", "\n", "<", "😀", "\u{301}"] {
            let text = run.repeat(20_000);
            let ids = tokenizer.encode(&text, false).unwrap();
            assert!(ids.len() <= text.len());
        }
    }
}

/// The entries of vocabulary and merges are all alike: a few of them are enough.
fn enter(place: &[String]) -> bool {
    let list = ["vocab", "merges", "added_tokens", "decoders", "normalizers", "pretokenizers"];
    match place {
        [.., list_name, entry] if list.contains(&list_name.as_str()) => {
            ["0", "1", "2", "<0x00>", "a", "!"].contains(&entry.as_str())
        }
        _ => true,
    }
}

/// What tokenizers of other kinds have in these places, and some that none has.
fn parts() -> Vec<Value> {
    serde_json::from_str(include_str!("parts.json")).unwrap()
}

/// Whether it is a tokenizer; then it works.
fn try_all_texts(root: &Value) -> bool {
    let Ok(tokenizer) = load(root) else { return false };
    TEXTS.iter().for_each(|text| exercise(&tokenizer, text, &[0, 1, 255, 59_999]));
    true
}

/// Each part in each place where a tokenizer has one.
#[test]
fn parts_of_other_tokenizers_are_refused_or_work() {
    let sections = [
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
        "added_tokens",
        "padding",
        "truncation",
    ];
    let (mut worked, mut refused) = (0, 0);
    for name in NAMES {
        let honest = content(name);
        for section in sections {
            for part in parts().into_iter().chain([Value::Null]) {
                let mut root = honest.clone();
                put(&mut root, &[section.to_owned()], Some(part));
                *if try_all_texts(&root) { &mut worked } else { &mut refused } += 1;
            }
        }
    }
    assert!(worked > 100 && refused > 100, "{worked} worked, {refused} were refused");
}

#[test]
fn mutated_tokenizers_are_refused_or_work() {
    let honest: Vec<(Value, Vec<Place>)> = NAMES
        .iter()
        .map(|name| content(name))
        .map(|root| (root.clone(), places(&root, &enter)))
        .collect();
    let values: Vec<Value> = values().into_iter().chain(parts()).collect();
    type Input = (u8, Vec<(u16, u8)>, u8, String, Vec<u16>);
    bolero::check!().with_iterations(500).with_type::<Input>().for_each(
        |(which, choices, text, own, ids)| {
            let (root, places) = &honest[usize::from(*which) % honest.len()];
            let mut root = root.clone();
            change(&mut root, places, &values, &choices[..choices.len().min(4)]);
            if let Ok(tokenizer) = load(&root) {
                exercise(&tokenizer, TEXTS[usize::from(*text) % TEXTS.len()], ids);
                exercise(&tokenizer, own, &[]);
            }
        },
    );
}

#[test]
fn any_bytes_are_refused() {
    bolero::check!().for_each(|bytes: &[u8]| {
        assert!(Tokenizer::new(bytes, &Map::new()).is_err());
    });
}

#[test]
fn a_spelling_of_a_megabyte_is_refused() {
    let mut root = content("qwen3");
    let long = json!([{"id": 600, "content": "x".repeat(1 << 20), "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}]);
    put(&mut root, &["added_tokens".to_owned()], Some(long));
    let wanted = "is spelled with 1048576 bytes, at most 4096 are read";
    let error = load(&root).err().unwrap().to_string();
    assert!(error.contains(wanted), "{error}");
    let text = "x".repeat(1 << 20);
    for config in [
        json!({"eos_token": text.clone()}),
        json!({"additional_special_tokens": [text.clone()]}),
        json!({"added_tokens_decoder": {"600": {"content": text.clone()}}}),
    ] {
        let honest = content("qwen3").to_string();
        let error = Tokenizer::new(honest.as_bytes(), config.as_object().unwrap()).err().unwrap();
        assert!(error.to_string().contains(wanted), "{error}");
    }
}
