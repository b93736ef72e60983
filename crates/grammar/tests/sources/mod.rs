//! Broken sources from a seed, and a list of harmful ones.

use std::iter::repeat_with;

use fastrand::Rng;
use grammar::Constraint;
use serde_json::{Map, Value, json};

/// Any source: mutated text, or something made up that is likelier to be understood.
pub fn broken(rng: &mut Rng) -> Constraint {
    match rng.u8(..6) {
        0 => Constraint::JsonSchema(schema(rng, 4)),
        1 => Constraint::Regex(regex(rng, 5)),
        2 => Constraint::Lark(lark(rng)),
        _ => {
            let text = mutated(rng);
            match (serde_json::from_str(&text), rng.bool()) {
                (Ok(value), _) => Constraint::JsonSchema(value),
                (Err(_), true) => Constraint::Regex(text),
                (Err(_), false) => Constraint::Lark(text),
            }
        }
    }
}

/// What mutations start from.
const SEEDS: &[&str] = &[
    r#"{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}"#,
    r#"{"type":"array","items":{"type":"integer"},"maxItems":4}"#,
    r#"{"enum":["red",7,null,{"x":[]}]}"#,
    r#"{"anyOf":[{"type":"null"},{"type":"string","maxLength":5}]}"#,
    r##"{"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},"maxItems":2}}}"##,
    r#"{"type":"string","pattern":"^[a-f]{1,4}$"}"#,
    r#"{"type":"number","minimum":-2,"maximum":2.5}"#,
    r"(a|b){2,30}[^x-z]*\d+\w?",
    r"([A-Z][a-z]+ )*(?i:end)\.",
    r"(a{1,100}){1,100}",
    r"\p{L}{3}.*[^\n]+",
    "start: expr\nexpr: NUMBER | expr \"+\" expr\nNUMBER: /[0-9]+/",
    "start: a b*\na: \"x\"i | \"y\"..\"z\"\nb[max_tokens=5]: /.*/\n%ignore /[ \\t]+/",
    "start: %json {\"type\": \"object\"}\n",
];

/// What mutations put in.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "*",
    "+",
    "?",
    "|",
    "\\",
    "\"",
    "{1,9999999}",
    "{0,}",
    "start",
    ": ",
    "\n",
    "$ref",
    "\"minLength\":1000000,",
    "\"maxItems\":100000,",
    "\"pattern\":\"(a|b|ab)*c{1,1000}\",",
    "(.*a){30}",
    "~",
    "&",
    "%ignore",
    "\u{0}",
    "é",
    "..",
    "\"multipleOf\":0.0001,",
    "\"allOf\":[{},{\"not\":{}}],",
    "/",
    "<[3-9]>",
    "-1e308",
    "\\p{Greek}",
];

fn mutated(rng: &mut Rng) -> String {
    let mut text: Vec<char> = rng.choice(SEEDS).unwrap().chars().collect();
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=text.len());
        let to = (at + rng.usize(..12)).min(text.len());
        match rng.u8(..4) {
            0 => drop(text.drain(at..to)),
            1 => {
                let copy: Vec<char> = text[at..to].to_vec();
                (0..rng.usize(1..20)).for_each(|_| drop(text.splice(at..at, copy.iter().copied())));
            }
            _ => drop(text.splice(at..at, rng.choice(PIECES).unwrap().chars())),
        }
    }
    text.into_iter().collect()
}

/// A schema of so many levels at most.
fn schema(rng: &mut Rng, levels: usize) -> Value {
    let bound = |rng: &mut Rng| rng.choice([0, 1, 3, 40, 1000, 100_000]).unwrap();
    if levels == 0 {
        return rng
            .choice([json!(true), json!({}), json!({"type": "null"}), json!({"const": "x"})])
            .unwrap();
    }
    let inner = |rng: &mut Rng| schema(rng, levels - 1);
    let several = |rng: &mut Rng| {
        let count = rng.usize(1..6);
        Value::Array(repeat_with(|| schema(rng, levels - 1)).take(count).collect())
    };
    match rng.u8(..12) {
        0 => json!({"type": "string", "minLength": bound(rng), "maxLength": bound(rng)}),
        1 => json!({"type": "string", "pattern": regex(rng, 3)}),
        2 => {
            json!({"type": "string", "format": rng.choice(["date-time", "email", "uuid", "ipv6", "none"])})
        }
        3 => json!({"type": "integer", "minimum": rng.i32(-9999..9999), "maximum": rng.i32(..)}),
        4 => json!({"type": "number", "multipleOf": rng.choice([0.1, 7.0, 0.0001, 0.0, -1.0])}),
        5 => json!({"enum": (0..rng.usize(1..200)).map(|_| rng.u32(..)).collect::<Vec<_>>()}),
        6 => json!({"type": "array", "items": inner(rng), "minItems": bound(rng)}),
        7 => json!({"type": "array", "prefixItems": several(rng), "maxItems": bound(rng)}),
        8 => json!({rng.choice(["anyOf", "oneOf", "allOf"]).unwrap(): several(rng)}),
        9 => json!({"type": "object", "patternProperties": {regex(rng, 2): inner(rng)}}),
        _ => object(rng, levels),
    }
}

fn object(rng: &mut Rng, levels: usize) -> Value {
    let names = (0..rng.usize(1..8)).map(|_| format!("p{}", rng.u8(..20))).collect::<Vec<_>>();
    let properties: Map<String, Value> =
        names.iter().map(|name| (name.clone(), schema(rng, levels - 1))).collect();
    let required = &names[..rng.usize(..=names.len())];
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": rng.bool()})
}

/// An expression of so many levels at most.
fn regex(rng: &mut Rng, levels: usize) -> String {
    const ATOMS: &[&str] =
        &["a", "b", "ab", "[a-z]", ".", r"\d", r"\w", r"\p{L}", "[^\"\\\\]", "é", "x?"];
    if levels == 0 {
        return rng.choice(ATOMS).unwrap().to_string();
    }
    let inner = regex(rng, levels - 1);
    match rng.u8(..8) {
        0 => format!("({inner})*"),
        1 => format!("({inner})+"),
        2 => format!("({inner})?{inner}"),
        3 => format!("({inner}){{{},{}}}", rng.u8(..5), rng.choice([5, 50, 500, 5000]).unwrap()),
        4 => format!("({inner}|{})", regex(rng, levels - 1)),
        5 => format!("(.*{inner}){{{}}}", rng.u8(..40)),
        6 => inner.repeat(rng.usize(1..30)),
        _ => inner + &regex(rng, levels - 1),
    }
}

fn lark(rng: &mut Rng) -> String {
    let rules = rng.usize(1..8);
    let mut text = "start: r0\n".to_owned();
    for at in 0..rules {
        let alternatives = (0..rng.usize(1..4)).map(|_| symbols(rng, rules)).collect::<Vec<_>>();
        text += &format!("r{at}: {}\n", alternatives.join(" | "));
    }
    for at in 0..3 {
        text += &format!("T{at}: /{}/\n", regex(rng, 3).replace('/', "\\/"));
    }
    text
}

fn symbols(rng: &mut Rng, rules: usize) -> String {
    let symbol = |rng: &mut Rng| match rng.u8(..4) {
        0 => format!("T{}", rng.u8(..3)),
        1 => format!("r{}", rng.usize(..rules)),
        2 => format!("r{}{{1,{}}}", rng.usize(..rules), rng.choice([2, 30, 1000]).unwrap()),
        _ => format!("\"{}\"", rng.lowercase()),
    };
    (0..rng.usize(1..5)).map(|_| symbol(rng)).collect::<Vec<_>>().join(" ")
}

/// Sources within every limit of size that cost as much as their authors could make them cost.
pub fn harmful() -> Vec<(&'static str, Constraint)> {
    let regex = |text: String| Constraint::Regex(text);
    let lark = |text: String| Constraint::Lark(text);
    let chain = |link: fn(usize) -> String, count: usize| (0..count).map(link).collect::<String>();
    vec![
        ("optional letters", regex("a?".repeat(1_000))),
        ("optional classes", regex("[a-z]?".repeat(300))),
        ("optional, counted", regex("(a?b?c?){600}".into())),
        ("counted twice", regex("(a{1,300}){1,300}".into())),
        ("counted thrice", regex("((a{1,99}b?){1,99}c?){1,99}".into())),
        ("looks for an a", regex("(.*a){30}".into())),
        ("subsets", regex("(a|b)*a(a|b){200}".into())),
        ("subsets of classes", regex(r"(\w|x)*x(\w|x){100}".into())),
        ("words", regex(chain(|at| format!("w{}o{at}|", at * 7), 150) + "x")),
        (
            "words, any order",
            regex("(".to_owned() + &chain(|at| format!("w{at}|"), 300) + "x){1,99}"),
        ),
        ("classes of Unicode", regex(r"(\p{L}|\p{Greek}|\p{Han})?".repeat(60))),
        ("terminal of optionals", lark(format!("start: A\nA: {}", "\"a\"? ".repeat(1_600)))),
        ("terminal of an expression", lark(format!("start: A\nA: /{}/", "a?".repeat(4_000)))),
        (
            "terminals that double",
            lark(
                "start: T0\n".to_owned()
                    + &chain(|at| format!("T{at}: T{} T{}\n", at + 1, at + 1), 12)
                    + "T12: /a?b?/",
            ),
        ),
        (
            "rules that double",
            lark(
                "start: r0\n".to_owned()
                    + &chain(|at| format!("r{at}: r{} r{}\n", at + 1, at + 1), 20)
                    + "r20: \"a\"?",
            ),
        ),
        (
            "parts of a text",
            lark(format!(
                "start: A\nA: %regex {{\"substring_chars\": \"{}\"}}",
                "abcab".repeat(400)
            )),
        ),
        ("ambiguous", lark("start: start start | \"a\" | \"\"".into())),
        ("ambiguous, thrice", lark("start: s\ns: s s s | \"a\" | s \"a\" |".into())),
        (
            "many expressions",
            lark(
                "start: r*\nr: ".to_owned()
                    + &chain(|at| format!("/[a-z]{{{at}}}x/ | "), 300)
                    + "\"x\"",
            ),
        ),
        ("intersections", lark("start: A\nA: /(.*a){20}/ & /(.*b){20}/ & /(.*c){20}/".into())),
        ("complement", lark("start: A\nA: ~/(.*a.{12}b)/".into())),
        ("counted rule", lark("start: r{1,9999}\nr: \"a\" | \"b\" | /c+/".into())),
        ("nullable", lark("start: ".to_owned() + &"r ".repeat(900) + "\nr: \"a\"?")),
        (
            "long string",
            Constraint::JsonSchema(
                json!({"type": "string", "minLength": 9_999, "maxLength": 99_999}),
            ),
        ),
        (
            "long list",
            Constraint::JsonSchema(
                json!({"type": "array", "minItems": 999, "items": {"type": "integer"}}),
            ),
        ),
        ("all of alternatives", Constraint::JsonSchema(all_of(8, 6))),
        ("all of more alternatives", Constraint::JsonSchema(all_of(20, 10))),
        ("all of patterns", Constraint::JsonSchema(all_patterns())),
        ("many properties", Constraint::JsonSchema(properties(900))),
        (
            "any of objects",
            Constraint::JsonSchema(
                json!({"anyOf": (0..60).map(|_| properties(12)).collect::<Vec<_>>()}),
            ),
        ),
        (
            "large numbers",
            Constraint::JsonSchema(
                json!({"type": "integer", "minimum": -1e15, "maximum": 1e15, "multipleOf": 9973}),
            ),
        ),
        (
            "large enumeration",
            Constraint::JsonSchema(json!({"enum": (0..6_000).collect::<Vec<_>>()})),
        ),
        (
            "choices",
            Constraint::Choice((0..1024).map(|at| format!("{} choice", at * 7919)).collect()),
        ),
    ]
}

/// An intersection of `count` unions of `each`.
fn all_of(count: usize, each: usize) -> Value {
    let union = |at: usize| {
        let option = |option: usize| json!({"type": "object", "properties": {format!("p{at}"): {"const": option}}});
        json!({"anyOf": (0..each).map(option).collect::<Vec<_>>()})
    };
    json!({"allOf": (0..count).map(union).collect::<Vec<_>>()})
}

fn all_patterns() -> Value {
    let pattern = |at: usize| json!({"type": "string", "pattern": format!("(.*{}){{12}}", (b'a' + at as u8) as char)});
    json!({"allOf": (0..10).map(pattern).collect::<Vec<_>>()})
}

fn properties(count: usize) -> Value {
    let property = |at: usize| (format!("property{at}"), json!({"type": ["string", "integer"]}));
    json!({"type": "object", "properties": (0..count).map(property).collect::<Map<_, _>>()})
}
