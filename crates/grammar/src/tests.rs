//! Masks over a small vocabulary, walked at random.

use std::time::Instant;

use fastrand::Rng;
use foundation::TokenId;
use runtime::sampling::{Constraint as _, TokenMask};
use serde_json::{Value, json};

use super::*;

const END: TokenId = TokenId(300);
const OTHER_END: TokenId = TokenId(301);
const CONTROL: TokenId = TokenId(302);
const VOCAB: usize = 310;
/// The tokens of several bytes, from 256 on.
const LONGER: &[&str] = &[
    "true", "null", "\": ", "\", \"", " {", "{\"", "\"}", "12", "]}", "the ", "</th", "ink>", "k>{",
];

/// A token for each byte, some of several bytes, two that end the output, one that controls something.
fn vocabulary() -> Vocabulary {
    let mut spellings: Vec<TokenSpelling> = (0..=255_u8).map(|byte| spelled(&[byte])).collect();
    spellings.extend(LONGER.iter().map(|text| spelled(text.as_bytes())));
    spellings.resize(VOCAB - 2, TokenSpelling::default());
    Vocabulary::new(&spellings, VOCAB, &[END, OTHER_END]).unwrap()
}

fn spelled(bytes: &[u8]) -> TokenSpelling {
    TokenSpelling { bytes: bytes.to_vec(), differs_at_start: bytes.starts_with(b" ") }
}

fn longer(text: &str) -> TokenId {
    TokenId(256 + LONGER.iter().position(|known| *known == text).unwrap() as u32)
}

fn allows(mask: &TokenMask, token: TokenId) -> bool {
    mask[token.0 as usize / 32] >> (token.0 % 32) & 1 == 1
}

fn letter(letter: u8) -> TokenId {
    TokenId(letter.into())
}

/// What a walk gave.
struct Walk {
    text: Vec<u8>,
    ended: bool,
}

/// Draws allowed tokens at random, the shortest way out more often as the text grows.
fn walk(vocabulary: &Vocabulary, constraint: &Constraint, rng: &mut Rng, most: usize) -> Walk {
    let compiled = vocabulary.compile(constraint).unwrap();
    let mut follower = compiled.follow().unwrap();
    let mut text = Vec::new();
    for _ in 0..most {
        let mask = follower.allowed().unwrap();
        assert!(!allows(&mask, CONTROL), "a control token is allowed");
        assert_eq!(allows(&mask, END), allows(&mask, OTHER_END));
        if allows(&mask, END) && (rng.bool() || text.len() > 60) {
            return Walk { text, ended: true };
        }
        let all: Vec<u32> = (0..300).filter(|token| allows(&mask, TokenId(*token))).collect();
        // Letters that close something are likelier than 256 bytes of a string.
        let closing = all
            .iter()
            .copied()
            .filter(|token| b"\"}],:0".contains(&(*token as u8)) && *token < 256);
        let closing: Vec<u32> = closing.collect();
        let pool = if closing.is_empty() || rng.u8(..4) == 0 { &all } else { &closing };
        let Some(token) = rng.choice(pool).copied() else { return Walk { text, ended: true } };
        follower.take(TokenId(token)).unwrap();
        text.extend(bytes_of(token));
    }
    Walk { text, ended: false }
}

fn bytes_of(token: u32) -> Vec<u8> {
    match token {
        0..=255 => vec![token as u8],
        _ => LONGER[token as usize - 256].as_bytes().to_vec(),
    }
}

/// Follows `text` byte by byte; whether it may end there, or the place where it went wrong.
fn held(vocabulary: &Vocabulary, constraint: &Constraint, text: &str) -> Result<bool, usize> {
    let mut follower = vocabulary.compile(constraint).unwrap().follow().unwrap();
    for (place, byte) in text.bytes().enumerate() {
        if !allows(&follower.allowed().unwrap(), letter(byte)) {
            return Err(place);
        }
        follower.take(letter(byte)).unwrap();
    }
    Ok(allows(&follower.allowed().unwrap(), END))
}

#[test]
fn a_choice_is_one_of_its_texts_and_ends_behind_it() {
    let vocabulary = vocabulary();
    let constraint = Constraint::Choice(vec!["yes".into(), "no \"way\"\n".into(), "è/".into()]);
    for text in ["yes", "no \"way\"\n", "è/"] {
        assert_eq!(held(&vocabulary, &constraint, text), Ok(true), "{text}");
    }
    assert_eq!(held(&vocabulary, &constraint, "ye"), Ok(false));
    assert_eq!(held(&vocabulary, &constraint, "yess"), Err(3));
    let mut follower = vocabulary.compile(&constraint).unwrap().follow().unwrap();
    "yes".bytes().for_each(|byte| follower.take(letter(byte)).unwrap());
    let mask = follower.allowed().unwrap();
    let count: u32 = mask.iter().map(|word| word.count_ones()).sum();
    assert_eq!(count, 2, "both end tokens and nothing else");
}

#[test]
fn a_regex_is_matched_whole() {
    let vocabulary = vocabulary();
    let constraint = Constraint::Regex(r"[a-c]{2}/\d+".into());
    assert_eq!(held(&vocabulary, &constraint, "ab/7"), Ok(true));
    assert_eq!(held(&vocabulary, &constraint, "ab/"), Ok(false));
    assert_eq!(held(&vocabulary, &constraint, "abc"), Err(2));
}

#[test]
fn a_grammar_is_followed() {
    let vocabulary = vocabulary();
    let constraint = Constraint::Lark("start: \"<\" start \">\" | \"x\"".into());
    assert_eq!(held(&vocabulary, &constraint, "<<x>>"), Ok(true));
    assert_eq!(held(&vocabulary, &constraint, "<<x>x"), Err(4));
}

#[test]
fn a_schema_is_kept() {
    let vocabulary = vocabulary();
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["n"],
        "properties": {"n": {"type": "integer", "minimum": 3}, "s": {"type": "string", "maxLength": 2}},
    });
    let constraint = Constraint::JsonSchema(schema);
    assert_eq!(held(&vocabulary, &constraint, "{\"n\": 12, \"s\": \"ab\"}"), Ok(true));
    assert_eq!(held(&vocabulary, &constraint, "{\"n\":2}"), Err(6));
    assert_eq!(held(&vocabulary, &constraint, "{\"n\":5,\"s\":\"abc"), Err(14));
    assert_eq!(held(&vocabulary, &constraint, "{}"), Err(1));
    assert_eq!(held(&vocabulary, &Constraint::JsonObject, "{\"a\": [1, {}]}"), Ok(true));
    assert_eq!(held(&vocabulary, &Constraint::JsonObject, "[1"), Err(0));
}

#[test]
fn a_token_that_spells_otherwise_at_the_start_does_not_begin() {
    let vocabulary = vocabulary();
    let constraint = Constraint::Regex("( \\{)+".into());
    let compiled = vocabulary.compile(&constraint).unwrap();
    // A space is the only beginning, and one that the decoder would strip.
    let error = compiled.follow().unwrap().allowed().unwrap_err();
    assert!(error.contains("no token"), "{error}");
}

#[test]
fn behind_a_mark_the_output_is_free_until_then() {
    let vocabulary = vocabulary();
    let compiled =
        vocabulary.compile(&Constraint::JsonObject).unwrap().after("</think>", Some(CONTROL));
    let mut by_token = compiled.follow().unwrap();
    assert!(allows(&by_token.allowed().unwrap(), letter(b'z')));
    assert!(!allows(&by_token.allowed().unwrap(), END), "reasoning may not be all");
    by_token.take(letter(b'z')).unwrap();
    by_token.take(CONTROL).unwrap();
    assert!(!allows(&by_token.allowed().unwrap(), letter(b'z')));
    let mut spelled = compiled.follow().unwrap();
    for token in [letter(b'<'), longer("</th"), longer("ink>")] {
        assert!(allows(&spelled.allowed().unwrap(), letter(b'z')));
        spelled.take(token).unwrap();
    }
    assert!(!allows(&spelled.allowed().unwrap(), letter(b'z')));
    let mut beyond = compiled.follow().unwrap();
    for token in [longer("</th"), letter(b'i'), letter(b'n')] {
        beyond.take(token).unwrap();
    }
    assert!(beyond.take(longer("k>{")).unwrap_err().contains("and more"));
}

#[test]
fn what_is_refused_says_why() {
    let vocabulary = vocabulary();
    let deep = (0..70).fold(json!({}), |inner, _| json!({"not": inner}));
    let cases = [
        (Constraint::Regex("a(".into()), ""),
        (Constraint::Regex("a\\".into()), "escape"),
        (Constraint::Regex("".into()), "empty"),
        (Constraint::Regex("(?=a)b".into()), ""),
        (Constraint::Regex("(".repeat(100)), "nested"),
        (Constraint::Regex("a".repeat(MAX_PATTERN_BYTES + 1)), "bytes"),
        (Constraint::Lark(format!("start: \"{}\"", "a".repeat(MAX_GRAMMAR_BYTES))), "bytes"),
        (Constraint::Choice(vec!["a".repeat(MAX_BYTES + 1)]), "bytes"),
        (
            Constraint::JsonSchema(
                json!({"items": {"pattern": "a".repeat(MAX_PATTERN_BYTES + 1)}}),
            ),
            "bytes",
        ),
        (
            Constraint::JsonSchema(
                json!({"patternProperties": {"a".repeat(MAX_PATTERN_BYTES + 1): true}}),
            ),
            "bytes",
        ),
        (
            Constraint::JsonSchema(
                json!({"items": (0..9).map(|_| json!({"pattern": "a".repeat(1000)})).collect::<Vec<_>>()}),
            ),
            "together",
        ),
        (Constraint::Lark(format!("start: A\nA: /{}/", "a?".repeat(2000))), "written out"),
        (Constraint::Choice(vec![]), "nothing"),
        (Constraint::Choice(vec!["a".into(), String::new()]), "choice 1"),
        (Constraint::Choice(vec!["a".into(); MAX_CHOICES + 1]), "choices"),
        (Constraint::Lark("start: other".into()), "other"),
        (Constraint::Lark("start[temperature=2]: \"a\"".into()), "temperature"),
        (Constraint::JsonSchema(json!(3)), "object"),
        (Constraint::JsonSchema(json!({"type": "strange"})), "strange"),
        (Constraint::JsonSchema(json!({"type": "array", "uniqueItems": true})), "uniqueItems"),
        (Constraint::JsonSchema(json!({"x-guidance": {"lenient": true}})), "x-guidance"),
        (Constraint::JsonSchema(json!({"$ref": "https://example.org/schema"})), ""),
        (Constraint::JsonSchema(deep), "nested"),
    ];
    for (constraint, word) in cases {
        let error = vocabulary.compile(&constraint).unwrap_err().to_string();
        println!("{error}");
        assert!(error.contains(word), "{word} is not in {error:?}");
        assert!(error.chars().count() < 400 && !error.contains('\n'), "{error}");
    }
    let spellings = vec![spelled(b"a")];
    assert!(Vocabulary::new(&spellings, 1, &[]).is_err(), "nothing could end a text");
}

/// Schemas small enough that a random walk comes to an end.
fn schemas() -> Vec<Value> {
    vec![
        json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false}),
        json!({"type": "array", "items": {"type": "integer"}, "maxItems": 4}),
        json!({"enum": ["red", 7, null, {"x": []}]}),
        json!({"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 5}]}),
        json!({"type": "object", "additionalProperties": {"type": "number"}}),
        json!({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 2}}}),
        json!({"type": "string", "pattern": "^[a-f]{1,4}$"}),
        json!({"type": "number", "minimum": -2, "maximum": 2.5}),
    ]
}

#[test]
fn every_walk_that_ends_parses() {
    let vocabulary = vocabulary();
    let mut rng = Rng::with_seed(5);
    let mut ended = 0;
    for schema in schemas() {
        let constraint = Constraint::JsonSchema(schema.clone());
        for _ in 0..40 {
            let walk = walk(&vocabulary, &constraint, &mut rng, 400);
            let text = String::from_utf8_lossy(&walk.text).into_owned();
            if walk.ended {
                ended += 1;
                let parsed = serde_json::from_slice::<Value>(&walk.text);
                assert!(parsed.is_ok(), "{schema}: {text:?}: {parsed:?}");
            }
        }
    }
    assert!(ended > 200, "only {ended} walks ended");
}

/// Long sources without a bracket too many: what recurses over them must not depend on the stack of whoever follows.
fn long_sources() -> Vec<(&'static str, Constraint)> {
    let chain = |link: fn(usize) -> String, count: usize| (0..count).map(link).collect::<String>();
    let refs = |count: usize| {
        let defs = (0..count)
            .map(|at| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)})));
        let mut defs: serde_json::Map<String, Value> = defs.collect();
        defs.insert(format!("d{count}"), json!({"type": "integer"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    };
    let rules = chain(|at| format!("r{at}: \"x\" r{}\n", at + 1), 250);
    let terminals = chain(|at| format!("T{at}: \"x\" | \"y\" T{}\n", at + 1), 250);
    vec![
        ("literal", Constraint::Regex("ab".repeat(1_000))),
        ("optional", Constraint::Regex("a?".repeat(1_000))),
        ("groups", Constraint::Regex("(ab|cd)*".repeat(250))),
        ("alternatives", Constraint::Regex(chain(|at| format!("{at}|"), 400) + "x")),
        ("nested", Constraint::Regex("(a|b".repeat(60) + &")*".repeat(60))),
        ("rules", Constraint::Lark(format!("start: r0\n{rules}r250: \"z\"\n"))),
        ("terminals", Constraint::Lark(format!("start: T0\n{terminals}T250: \"z\"\n"))),
        (
            "complements",
            Constraint::Lark("start: A\nA: ".to_owned() + &"~".repeat(3_000) + "\"a\""),
        ),
        ("references", Constraint::JsonSchema(refs(1_200))),
        (
            "choices",
            Constraint::Choice((0..1024).map(|at| format!("choice number {at}")).collect()),
        ),
    ]
}

#[test]
fn long_sources_are_followed_on_a_small_stack() {
    let vocabulary = vocabulary();
    let mut rng = Rng::with_seed(2);
    for (name, constraint) in long_sources() {
        let begin = Instant::now();
        let compiled = match vocabulary.compile(&constraint) {
            Ok(compiled) => compiled,
            Err(error) => {
                println!("{name}: refused after {:?}: {error}", begin.elapsed());
                continue;
            }
        };
        println!("{name}: compiled in {:?}", begin.elapsed());
        let seed = rng.u64(..);
        let follow = move || {
            let mut rng = Rng::with_seed(seed);
            let mut follower = compiled.follow().unwrap();
            for _ in 0..30 {
                let Ok(mask) = follower.allowed() else { return };
                let tokens = (0..300).filter(|id| allows(&mask, TokenId(*id)));
                let Some(token) = rng.choice(tokens.collect::<Vec<u32>>()) else { return };
                follower.take(TokenId(token)).unwrap();
            }
        };
        // Half of what a thread has by default.
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(follow).unwrap();
        thread.join().unwrap();
        println!("{name}: followed, {:?} in all", begin.elapsed());
    }
}
