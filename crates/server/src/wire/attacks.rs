//! Bodies that nobody sane would send: whatever comes, it is read or refused with a reason that can be acted on.

use bolero::check;
use serde_json::{Map, Value, json};

use super::{
    fields::{Field, Problem, Rule},
    json::parse_object,
    tests::KINDS,
};

/// What a body that is no object of JSON is told; anything else is told of a field.
const NO_OBJECT: &[&str] = &[
    "the body is not valid UTF-8: bad byte at offset",
    "the body is not valid JSON",
    "the body must be a JSON object",
];

/// Bodies to begin from, sound and otherwise.
const CORPUS: &[&str] = &[
    r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"temperature":0.5,"stream":true}"#,
    r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"logprobs":true,"top_logprobs":3}"#,
    r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":[1]}"}}]},{"role":"tool","tool_call_id":"1","content":"7"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto"}"#,
    r#"{"prompt":["a",[1,2,3]],"n":2,"echo":true,"logprobs":2,"stop":["x","y"],"logit_bias":{"5":-100}}"#,
    r#"{"prompt":"\u00e9\ud83d\ude00","seed":-1,"top_k":-1,"stop_token_ids":[1,2],"min_tokens":1,"priority":-5}"#,
    r#"{"prompt":"a","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#,
    r#"{"tokens":[1,2,3],"skip_special_tokens":true,"model":"m"}"#,
    r#"{"prompt":1e400}"#,
    r#"{"prompt":"\ud800"}"#,
    r#"{"a":{"a":{"a":{"a":[[[[{}]]]]}}}}"#,
    r#"{"prompt":"a","prompt":"b"}"#,
    "[1,2]",
    "null",
    "",
];

/// Holds a body against every request; whatever is refused names its reason.
fn assert_answered(body: &[u8]) {
    match parse_object(body) {
        Ok(map) => KINDS.iter().for_each(|kind| assert_read(kind.name, (kind.read)(map.clone()))),
        Err(error) => {
            let text = error.to_string();
            let known = NO_OBJECT.iter().any(|reason| text.starts_with(reason));
            assert!(known, "{text:?} for {:?}", String::from_utf8_lossy(body));
        }
    }
}

fn assert_read(kind: &str, read: Result<String, Vec<Problem>>) {
    let Err(problems) = read else { return };
    assert!(!problems.is_empty(), "{kind}: refused without a reason");
    for Problem { param, message } in problems {
        assert!(!param.is_empty(), "{kind}: {message:?} names no field");
        let rest = message.strip_prefix(&param).and_then(|rest| rest.strip_prefix(' '));
        assert!(rest.is_some_and(|rest| !rest.is_empty()), "{kind}: {message:?} of {param:?}");
    }
}

#[test]
fn the_corpus_is_answered() {
    CORPUS.iter().for_each(|body| assert_answered(body.as_bytes()));
}

#[test]
fn whatever_the_bytes_are_they_are_answered() {
    check!().for_each(|bytes: &[u8]| {
        assert_answered(bytes);
        assert_answered(&[b"{\"prompt\":", bytes, b"}"].concat());
    });
}

#[test]
fn known_bodies_with_a_wound_are_answered() {
    check!().with_type::<(u8, u16, u8, Vec<u8>)>().for_each(|(which, at, cut, noise)| {
        let mut body = CORPUS[*which as usize % CORPUS.len()].as_bytes().to_vec();
        let at = usize::from(*at) % (body.len() + 1);
        let end = (at + usize::from(*cut) % 8).min(body.len());
        body.splice(at..end, noise.iter().copied());
        assert_answered(&body);
    });
}

/// Fields with values of every shape, most of them near what is wanted.
#[test]
fn whatever_the_fields_hold_they_are_answered() {
    check!().for_each(|bytes: &[u8]| {
        for kind in KINDS {
            let names: Vec<&Field> = kind.tables.iter().copied().flatten().collect();
            let mut source = Source { bytes, names: &names };
            let Value::Object(mut map) = (kind.least)() else { panic!("requests are objects") };
            for _ in 0..=source.next() % 6 {
                let field = names[usize::from(source.next()) % names.len()];
                let value = source.near(field);
                map.insert(field.name.into(), value);
            }
            let text = Value::Object(map.clone()).to_string();
            assert_eq!(parse_object(text.as_bytes()).unwrap(), map);
            assert_read(kind.name, (kind.read)(map));
        }
    });
}

/// Makes values out of bytes.
struct Source<'a> {
    bytes: &'a [u8],
    names: &'a [&'a Field],
}

impl Source<'_> {
    // Numbers are sums of powers of two: those survive being written and read.

    /// The next byte; zeros behind the last.
    fn next(&mut self) -> u8 {
        let (first, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        *first
    }

    /// A value that the field may be meant to hold, or any.
    fn near(&mut self, field: &Field) -> Value {
        if self.next().is_multiple_of(4) {
            return self.value(4);
        }
        match field.rule {
            Rule::Float(min, max) | Rule::FloatAbove(min, max) => {
                json!(min + (max - min) * f64::from(self.next()) / 256.0)
            }
            Rule::Integer(min, max) => match self.next() {
                0 => json!(min),
                1 => json!(max),
                2 => json!(max as f64),
                other => json!(i64::from(other) - 3),
            },
            Rule::Boolean => json!(self.next() > 99),
            Rule::Text => json!(self.text()),
            Rule::Shaped => self.value(5),
            Rule::Only(_) => Value::Null,
        }
    }

    /// Any value, nested at most so deep.
    fn value(&mut self, depth: u8) -> Value {
        match self.next() % if depth == 0 { 6 } else { 10 } {
            0 => Value::Null,
            1 => json!(self.next() > 99),
            2 => json!(i64::from(self.next()) - 20),
            3 => json!(f64::from(self.next()) / 8.0 - 5.0),
            4 => json!([u64::MAX, i64::MIN as u64, 1 << 53][usize::from(self.next()) % 3]),
            5 => json!(self.text()),
            6 | 7 => (0..self.next() % 5).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let entries = self.next() % 5;
                let entries = (0..entries).map(|_| (self.key(), self.value(depth - 1)));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    fn text(&mut self) -> String {
        const TEXTS: &[&str] = &[
            "",
            "user",
            "assistant",
            "text",
            "function",
            "none",
            "auto",
            "{\"a\": 1}",
            "7",
            "\u{0}",
            "é\u{301}",
        ];
        TEXTS[usize::from(self.next()) % TEXTS.len()].to_owned()
    }

    fn key(&mut self) -> String {
        const KEYS: &[&str] = &[
            "role",
            "content",
            "type",
            "text",
            "function",
            "name",
            "arguments",
            "tool_calls",
            "5",
            "05",
            "-1",
            "",
        ];
        match usize::from(self.next()) {
            known if known < 100 => KEYS[known % KEYS.len()].to_owned(),
            other => self.names[other % self.names.len()].name.to_owned(),
        }
    }
}
