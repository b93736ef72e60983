//! The dialects, one table each, and what holds for all of them: the result does not depend on how a stream was cut.

use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use super::*;

/// An answer, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    reasoning: String,
    content: String,
    calls: Vec<Call>,
    withdrawn: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Call {
    index: usize,
    id: String,
    name: String,
    arguments: String,
    complete: bool,
}

impl Answer {
    fn take(&mut self, event: DialectEvent) {
        match event {
            DialectEvent::Reasoning(text) => self.reasoning.push_str(&text),
            DialectEvent::Content(text) => self.content.push_str(&text),
            DialectEvent::ToolCallStart { index, id, name } => {
                assert!(self.calls.iter().all(|call| call.complete), "one call at a time");
                assert_eq!(index, self.calls.len() + self.withdrawn);
                self.calls.push(Call { index, id, name, ..Call::default() });
            }
            DialectEvent::ToolCallArguments { index, delta } => {
                self.open(index).arguments.push_str(&delta);
            }
            DialectEvent::ToolCallEnd { index } => self.open(index).complete = true,
            DialectEvent::ToolCallWithdrawn { index } => {
                self.open(index);
                self.calls.pop();
                self.withdrawn += 1;
            }
        }
    }

    fn open(&mut self, index: usize) -> &mut Call {
        let call = self.calls.last_mut().expect("a call has begun");
        assert_eq!((call.index, call.complete), (index, false));
        call
    }

    fn check(&self) {
        for call in &self.calls {
            let object: Result<serde_json::Map<String, serde_json::Value>, _> =
                serde_json::from_str(&call.arguments);
            assert!(call.complete && object.is_ok(), "{call:?}");
        }
    }
}

fn selection(calls: &str, reasoning: &str) -> Selection {
    Selection::new(None, Some(calls), Some(reasoning)).unwrap()
}

fn read(selection: &Selection, options: ParserOptions, pieces: &[&str]) -> Answer {
    let mut parser = DialectParser::new(selection, options).expect("something to tell apart");
    let mut answer = Answer::default();
    let pieces = pieces.iter().flat_map(|piece| parser.push(piece)).collect::<Vec<_>>();
    pieces.into_iter().chain(parser.finish()).for_each(|event| answer.take(event));
    answer.check();
    answer
}

const CALLS: ParserOptions = ParserOptions { calls: true, reasoning_open: false, id_seed: 7 };

/// The answer to the whole text, after it was read in single characters and in two pieces, cut anywhere.
fn read_in_all_ways(selection: &Selection, options: ParserOptions, text: &str) -> Answer {
    let whole = read(selection, options, &[text]);
    let chars: Vec<&str> = text.split("").collect();
    assert_eq!(read(selection, options, &chars), whole, "{text:?} by characters");
    for (at, _) in text.char_indices() {
        assert_eq!(
            read(selection, options, &[&text[..at], &text[at..]]),
            whole,
            "{text:?} at {at}"
        );
    }
    whole
}

/// Reasoning, content, calls as name and arguments.
type Want<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn expect(selection: &Selection, options: ParserOptions, text: &str, want: Want<'_>) {
    let answer = read_in_all_ways(selection, options, text);
    let calls: Vec<_> =
        answer.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    let seen = (answer.reasoning.as_str(), answer.content.as_str(), calls.as_slice());
    assert_eq!(seen, want, "of {text:?}");
}

#[test]
fn qwen() {
    let table: &[(&str, Want<'_>)] = &[
        ("hello", ("", "hello", &[])),
        ("\n two\n\nlines \n", ("", "\n two\n\nlines \n", &[])),
        ("<think>\nwell\n\nyes\n</think>\n\nhello\n", ("well\n\nyes", "hello\n", &[])),
        ("<think>\n\n</think>\n\n", ("", "", &[])),
        (" \n<think>a</think> b", ("a", " b", &[])),
        // No end: all of it is reasoning.
        ("<think>\nwell <tool_call> </thin", ("well <tool_call> </thin", "", &[])),
        // Later marks are text.
        ("a <think>b</think>", ("", "a <think>b</think>", &[])),
        ("<think>a</think>b<think>c</think>", ("a", "b<think>c</think>", &[])),
        (
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
            ("", "", &[("f", "{\"a\": 1}")]),
        ),
        (
            "<think>\nt\n</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {\"x\": {\"y\": [{}]}}}\n</tool_call>\n",
            ("t", "Let me see.", &[("f", "{}"), ("g", "{\"x\": {\"y\": [{}]}}")]),
        ),
        (
            "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\nand then",
            ("", "\nand then", &[("f", "{}")]),
        ),
        // Marks and braces in strings, escapes.
        (
            r#"<tool_call>{"name":"f","arguments":{"s":"</tool_call> }{ \"<tool_call>\\\" \u00e9 é"}}</tool_call>"#,
            ("", "", &[("f", r#"{"s":"</tool_call> }{ \"<tool_call>\\\" \u00e9 é"}"#)]),
        ),
        (
            r#"<tool_call>{"name":"caf\u00e9","arguments":{}}</tool_call>"#,
            ("", "", &[("café", "{}")]),
        ),
        // Any order, other names, no arguments, arguments in a string.
        (
            r#"<tool_call>{"parameters":{"a":[1, 2]},"id":"x","name":"f"}</tool_call>"#,
            ("", "", &[("f", r#"{"a":[1, 2]}"#)]),
        ),
        (r#"<tool_call>{"name":"f"}</tool_call>"#, ("", "", &[("f", "{}")])),
        (r#"<tool_call>{"name":"f","arguments":null}</tool_call>"#, ("", "", &[("f", "{}")])),
        (
            r#"<tool_call>{"name":"f","arguments":"{\"a\":1}"}</tool_call>"#,
            ("", "", &[("f", r#"{"a":1}"#)]),
        ),
        // The closing mark is missing.
        (r#"<tool_call>{"name":"f","arguments":{}}"#, ("", "", &[("f", "{}")])),
        (r#"<tool_call>{"name":"f","arguments":{}}</tool"#, ("", "", &[("f", "{}")])),
        (
            "<tool_call>{\"name\":\"f\",\"arguments\":{}}\n<tool_call>{\"name\":\"g\",\"arguments\":{}}",
            ("", "", &[("f", "{}"), ("g", "{}")]),
        ),
        (r#"<tool_call>{"name":"f","arguments":{}} x"#, ("", " x", &[("f", "{}")])),
    ];
    for (text, want) in table {
        expect(&selection("hermes", "qwen3"), CALLS, text, *want);
    }
}

#[test]
fn broken_calls_are_text() {
    let broken = [
        "\n<tool_call>",
        "<tool_call>\nhello</tool_call>",
        "x\n\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}\n</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {'a': 1}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": tru}}</tool_call>",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": 7}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"no\"}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"why\": 1}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"name\": \"g\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"parameters\": {}}</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "<tool_call>{}</tool_call>",
    ];
    for text in broken {
        expect(&selection("hermes", "none"), CALLS, text, ("", text, &[]));
    }
    // What follows is read again.
    let text = "<tool_call>\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
    expect(&selection("hermes", "none"), CALLS, text, ("", "<tool_call>\n", &[("f", "{}")]));
}

/// What was told of a call is taken back, and its number is not used again.
#[test]
fn a_call_that_breaks_late_is_withdrawn() {
    let text = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":?}}</tool_call><tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>";
    let answer = read_in_all_ways(&selection("hermes", "none"), CALLS, text);
    assert_eq!(answer.withdrawn, 1);
    assert_eq!(answer.content, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":?}}</tool_call>");
    assert_eq!((answer.calls[0].index, answer.calls[0].name.as_str()), (1, "g"));
}

#[test]
fn a_prompt_may_have_opened_the_reasoning() {
    let options = ParserOptions { reasoning_open: true, ..CALLS };
    let table: &[(&str, Want<'_>)] = &[
        ("\nwell\n</think>\n\nhello", ("well", "hello", &[])),
        ("<think>\nwell\n</think>hello", ("well", "hello", &[])),
        ("well", ("well", "", &[])),
        ("</think>\nhello", ("", "hello", &[])),
    ];
    for (text, want) in table {
        expect(&selection("hermes", "qwen3"), options, text, *want);
    }
    // Without a parser of reasoning nobody opened any.
    expect(&selection("hermes", "none"), options, "a</think>b", ("", "a</think>b", &[]));
}

#[test]
fn without_tools_calls_are_text() {
    let text = "<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
    let options = ParserOptions { calls: false, ..CALLS };
    let want = ("a", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", &[][..]);
    expect(&selection("hermes", "qwen3"), options, text, want);
    assert!(DialectParser::new(&selection("hermes", "none"), options).is_none());
    assert!(DialectParser::new(&Selection::default(), CALLS).is_none());
}

#[test]
fn llama3() {
    let f = r#"{"name": "f", "parameters": {"a": "x; y"}}"#;
    let want = ("f", r#"{"a": "x; y"}"#);
    let table: &[(&str, Want<'_>)] = &[
        (f, ("", "", &[want])),
        (&format!("\n{f}\n"), ("", "", &[want])),
        (&format!("<|python_tag|>{f}"), ("", "", &[want])),
        (&format!("{f}; {f};{f}"), ("", "", &[want, want, want])),
        (&format!("{f}\n{f}"), ("", "", &[want, want])),
        (&format!("Let me see.\n<|python_tag|>{f}"), ("", "Let me see.", &[want])),
        (&format!("{f}; that was it"), ("", "; that was it", &[want])),
        (&format!("{f}; {{\"answer\": 1}}"), ("", "; {\"answer\": 1}", &[want])),
        (r#"{"type": "function", "name": "f", "arguments": {}}"#, ("", "", &[("f", "{}")])),
        // Answers in JSON, and text with a brace in it.
        (r#"{"name": "Ada"}"#, ("", r#"{"name": "Ada"}"#, &[])),
        (r#"{"answer": 42}"#, ("", r#"{"answer": 42}"#, &[])),
        (&format!("Use {f}"), ("", &format!("Use {f}"), &[])),
        ("<|python_tag|>print(1)", ("", "<|python_tag|>print(1)", &[])),
    ];
    for (text, want) in table {
        expect(&selection("llama3_json", "none"), CALLS, text, *want);
    }
    let text = format!("<think>\nt\n</think>\n\n{f}");
    expect(&selection("llama3_json", "deepseek_r1"), CALLS, &text, ("t", "", &[want]));
}

#[test]
fn mistral() {
    let table: &[(&str, Want<'_>)] = &[
        ("hello [TOOL", ("", "hello [TOOL", &[])),
        (
            r#"[TOOL_CALLS][{"name": "f", "arguments": {"a": "]"}}, {"name": "g", "arguments": {}, "id": "123456789"}]"#,
            ("", "", &[("f", r#"{"a": "]"}"#), ("g", "{}")]),
        ),
        (r#"[TOOL_CALLS] [{"arguments": {}, "name": "f"}]"#, ("", "", &[("f", "{}")])),
        (r#"[TOOL_CALLS]f[ARGS]{"a": {}}"#, ("", "", &[("f", r#"{"a": {}}"#)])),
        (r#"Well. [TOOL_CALLS]f[CALL_ID]abc456789[ARGS]{}"#, ("", "Well. ", &[("f", "{}")])),
        (
            r#"[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g.h-1{"a": "[TOOL_CALLS]"}"#,
            ("", "", &[("f", "{}"), ("g.h-1", r#"{"a": "[TOOL_CALLS]"}"#)]),
        ),
        (r#"[TOOL_CALLS]{"name": "f", "arguments": {}}"#, ("", "", &[("f", "{}")])),
        ("[THINK]\nt\n[/THINK]\nhello", ("t", "hello", &[])),
        // Broken: the second call is text, the first stays.
        (
            r#"[TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "argu"#,
            ("", r#", {"name": "g", "argu"#, &[("f", "{}")]),
        ),
        ("[TOOL_CALLS]f[ARGS]nothing", ("", "[TOOL_CALLS]f[ARGS]nothing", &[])),
        ("[TOOL_CALLS]two words", ("", "[TOOL_CALLS]two words", &[])),
        ("[TOOL_CALLS][ARGS]{}", ("", "[TOOL_CALLS][ARGS]{}", &[])),
        (r#"[TOOL_CALLS]f[ARGS]{"a": "#, ("", r#"[TOOL_CALLS]f[ARGS]{"a": "#, &[])),
        ("[TOOL_CALLS]f", ("", "[TOOL_CALLS]f", &[])),
    ];
    for (text, want) in table {
        expect(&selection("mistral", "mistral"), CALLS, text, *want);
    }
    let answer = read(&selection("mistral", "none"), CALLS, &["[TOOL_CALLS]f[ARGS]{}"]);
    assert_eq!(answer.calls[0].id.len(), 9, "the templates demand it");
}

#[test]
fn gemma() {
    let table: &[(&str, Want<'_>)] = &[
        (
            "<start_function_call>call:get_weather{city:<escape>Paris, {FR}<escape>,days:3,exact:true}<end_function_call>",
            ("", "", &[("get_weather", r#"{"city":"Paris, {FR}","days":3,"exact":true}"#)]),
        ),
        (
            "<start_function_call>call:f{}<end_function_call><start_function_call>call:g{a:[1, <escape>x\"\n<escape>,{b:null}],c:{}}<end_function_call>",
            ("", "", &[("f", "{}"), ("g", r#"{"a":[1,"x\"\n",{"b":null}],"c":{}}"#)]),
        ),
        (
            "Well.\n<|tool_call>call:f{s:<|\"|><tool_call|>}<|\"|>,o:{<|\"|>k v<|\"|>:-1.5e3}}<tool_call|>",
            ("", "Well.", &[("f", r#"{"s":"<tool_call|>}","o":{"k v":-1.5e3}}"#)]),
        ),
        ("<|channel>thought\nt\n<channel|>hello", ("t", "hello", &[])),
        // The mark at the end may be a stop token; quotes may be forgotten.
        ("<start_function_call>call:f{a:<escape>x<escape>}", ("", "", &[("f", r#"{"a":"x"}"#)])),
        (
            "<start_function_call>call:f{a:two words}<end_function_call>",
            ("", "", &[("f", r#"{"a":"two words"}"#)]),
        ),
        // Broken.
        ("<start_function_call>hello", ("", "<start_function_call>hello", &[])),
        (
            "<start_function_call>call:f{a:<escape>x",
            ("", "<start_function_call>call:f{a:<escape>x", &[]),
        ),
        (
            "<start_function_call>call:f{a 1}<end_function_call>",
            ("", "<start_function_call>call:f{a 1}<end_function_call>", &[]),
        ),
        (
            "<start_function_call>call:{}<end_function_call>.",
            ("", "<start_function_call>call:{}<end_function_call>.", &[]),
        ),
        (
            "<start_function_call>call:f{a:1}}<end_function_call>",
            ("", "<start_function_call>call:f{a:1}}<end_function_call>", &[]),
        ),
    ];
    for (text, want) in table {
        expect(&selection("functiongemma", "gemma4"), CALLS, text, *want);
    }
}

#[test]
fn harmony() {
    let analysis = "<|channel|>analysis<|message|>Need\nit.<|end|><|start|>assistant";
    let table: &[(&str, Want<'_>)] = &[
        (&format!("{analysis}<|channel|>final<|message|>Hello."), ("Need\nit.", "Hello.", &[])),
        (
            &format!(
                r#"{analysis}<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{{"city": "<|x|> }}"}}<|call|>"#
            ),
            ("Need\nit.", "", &[("get_weather", r#"{"city": "<|x|> }"}"#)]),
        ),
        // The recipient before the channel; no stop token; text to the user before it; two calls.
        (r#" to=functions.f<|channel|>commentary json<|message|>{}"#, ("", "", &[("f", "{}")])),
        (
            r#"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|> {"a":1}
<|end|><|start|>assistant<|channel|>commentary to=functions.g<|message|><|call|>"#,
            ("", "I look.", &[("f", "{\"a\":1}"), ("g", "{}")]),
        ),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>",
            ("a\nb", "", &[]),
        ),
        // Headers forgotten, or broken off.
        ("Hello <|", ("", "Hello <|", &[])),
        ("<|channel|>final<|message|>Hello.<|return|>", ("", "Hello.", &[])),
        ("<|channel|>fin", ("", "", &[])),
        ("<|channel|>analysis<|message|>a<|end|>Hello.", ("a", "Hello.", &[])),
        // Broken calls.
        (
            r#"<|channel|>commentary to=functions.f<|message|>{"a":"#,
            ("", r#"<|channel|>commentary to=functions.f<|message|>{"a":"#, &[]),
        ),
        ("<|channel|>commentary to=functions.f", ("", "<|channel|>commentary to=functions.f", &[])),
        (
            "<|channel|>analysis to=python<|message|>print(1)<|call|>",
            ("", "<|channel|>analysis to=python<|message|>print(1)", &[]),
        ),
    ];
    for (text, want) in table {
        expect(&selection("harmony", "harmony"), CALLS, text, *want);
    }
    let text = "<|channel|>commentary to=functions.f<|message|>{}<|call|>";
    let options = ParserOptions { calls: false, ..CALLS };
    expect(&selection("harmony", "harmony"), options, text, ("", "{}", &[]));
}

/// The words that parts of answers are made of.
const WORDS: &[&str] = &[
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "{\"name\": \"f\", \"arguments\": {",
    "{\"name\":",
    "\"arguments\":",
    "\"f\"",
    "{}",
    "}",
    "}}",
    "{",
    "\"",
    "\\",
    "\\u00e9",
    ",",
    ":",
    "; ",
    "\n",
    " ",
    "hello",
    "é",
    "7",
    "null",
    "<",
    "<|",
    "<|python_tag|>",
    "{\"name\": \"f\", \"parameters\": {}}",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "[",
    "]",
    "[THINK]",
    "[/THINK]",
    "<start_function_call>",
    "call:f{",
    "a:1",
    "<escape>",
    "<end_function_call>",
    "<|tool_call>",
    "<|\"|>",
    "<tool_call|>",
    "<|channel>thought\n",
    "<channel|>",
    "<|start|>assistant",
    "<|channel|>",
    "analysis",
    "commentary",
    " to=functions.f",
    "final",
    "<|message|>",
    "<|constrain|>json",
    "<|end|>",
    "<|call|>",
    "<|return|>",
];

#[test]
fn no_cut_changes_the_answer() {
    let config =
        ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let selections = [
        selection("hermes", "qwen3"),
        selection("llama3_json", "qwen3"),
        selection("mistral", "mistral"),
        selection("gemma", "gemma"),
        selection("harmony", "harmony"),
        selection("none", "qwen3"),
    ];
    let words = prop::collection::vec(prop::sample::select(WORDS), 0..24);
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..8);
    let input = (0..selections.len(), words, cuts, any::<bool>(), any::<bool>());
    runner
        .run(&input, |(which, words, cuts, calls, reasoning_open)| {
            let text = words.concat();
            let options = ParserOptions { calls, reasoning_open, id_seed: 1 };
            let Some(_) = DialectParser::new(&selections[which], options) else { return Ok(()) };
            let mut at: Vec<usize> = cuts
                .iter()
                .map(|cut| text.floor_char_boundary(cut.index(text.len() + 1)))
                .collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let pieces: Vec<&str> = at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let whole = read(&selections[which], options, &[&text]);
            prop_assert_eq!(read(&selections[which], options, &pieces), whole.clone());
            let chars: Vec<&str> = text.split("").collect();
            prop_assert_eq!(read(&selections[which], options, &chars), whole);
            Ok(())
        })
        .unwrap();
}

/// Text goes out at once, but for what a mark could begin with; arguments as they come.
#[test]
fn little_is_held_back() {
    let mut parser = DialectParser::new(&selection("hermes", "qwen3"), CALLS).unwrap();
    let content = |text: &str| vec![DialectEvent::Content(text.to_owned())];
    assert_eq!(parser.push("Hello wor"), content("Hello wor"));
    assert_eq!(parser.push("ld <tool"), content("ld "));
    assert_eq!(parser.push("box>"), content("<toolbox>"));
    assert_eq!(parser.push("<tool_call>\n{\"name\": \"f\", \"arguments\""), []);
    let events = parser.push(": {\"path\": \"/et");
    let DialectEvent::ToolCallStart { index: 0, name, .. } = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(name, "f");
    let delta = |text: &str| DialectEvent::ToolCallArguments { index: 0, delta: text.to_owned() };
    assert_eq!(events[1..], [delta("{\"path\": \"/et")]);
    assert_eq!(parser.push("c\"}"), [delta("c\"}")]);
    assert_eq!(parser.push("}\n</tool_call>"), [DialectEvent::ToolCallEnd { index: 0 }]);
    assert_eq!(parser.finish(), []);
}
