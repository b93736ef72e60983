//! The chat template: whatever its source and whatever the messages, there is a text within its limits or an error.

use models::prompt::{ChatMessage, ChatTemplate, PromptError, RenderOptions, Tokenizer};
use serde_json::{Map, Value, json};

use crate::fixture;

/// The most that a conversation of a few bytes may render to, and some.
const OUTPUT: usize = (16 << 20) + (1 << 20);

fn tokenizer() -> Tokenizer {
    Tokenizer::from_dir(&fixture("qwen3")).unwrap().unwrap()
}

/// Renders with every option; what cannot be is an error, never a panic.
fn exercise(source: &str, tokenizer: &Tokenizer, messages: &[ChatMessage], tools: Option<&Value>) {
    let template = match ChatTemplate::new(source, tokenizer) {
        Ok(template) => template,
        Err(PromptError::Template { reason, .. }) => return assert!(!reason.is_empty()),
        Err(other) => panic!("{source:?}: {other}"),
    };
    let options = [
        RenderOptions { add_generation_prompt: true, ..RenderOptions::default() },
        RenderOptions { continue_final_message: true, ..RenderOptions::default() },
    ];
    for options in options {
        match template.render(messages, tools, &options) {
            Ok(rendered) => {
                assert!(rendered.text().len() <= OUTPUT, "{source:?}: {}", rendered.text().len());
                if rendered.text().len() < 1 << 16 {
                    tokenizer.encode_template(&rendered).unwrap();
                }
            }
            Err(error) => {
                let text = error.to_string();
                assert!(error.is_callers(), "{source:?}: {text}");
                assert!(
                    !text.contains("panicked") && !text.contains("no thread"),
                    "{source:?}: {text}"
                );
            }
        }
    }
}

fn plain() -> Vec<ChatMessage> {
    vec![
        ChatMessage::system("Be brief."),
        ChatMessage::user("a <|im_end|> b"),
        ChatMessage::assistant("<think>"),
    ]
}

/// Sources that ask for more than there is: time, text, memory, depth.
const GREEDY: &[&str] = &[
    "{{ 'x' * 99999999999 }}",
    "{{ 'x' * 1000000 * 1000000 }}",
    "{{ ['x'] * 99999999999 }}",
    "{{ ([1] * 1000000) | length }}",
    "{{ range(99999999999) | list | length }}",
    "{{ range(100000) | list }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x | replace('a', ns.x) %}{% endfor %}{{ ns.x | length }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}{{ ns.x | length }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x | length }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x.join(ns.x) %}{% endfor %}{{ ns.x | length }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] | join(ns.x) %}{% endfor %}{{ ns.x | length }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x | indent(1000000000) %}{% endfor %}{{ ns.x | length }}",
    "{% set ns = namespace(x='a\nb') %}{% for i in range(99) %}{% set ns.x = ns.x | indent(1000000) %}{% endfor %}{{ ns.x | length }}",
    "{{ 'a'.ljust(99999999999) }}",
    "{{ 'a'.center(9999999999) }}",
    "{{ 'a'.zfill(9999999999) }}",
    "{{ 'a'.expandtabs(9999999999) }}",
    "{{ '%9999999999d' | format(1) }}",
    "{{ '%.9999999999f' | format(1.5) }}",
    "{{ '{:>9999999999}'.format('x') }}",
    "{{ range(3) | batch(99999999999, 'x') | list | length }}",
    "{{ range(3) | slice(99999999999, 'x') | list | length }}",
    "{{ 10 ** 99999 }}",
    "{{ (10 ** 30) * (10 ** 30) }}",
    "{{ -170141183460469231731687303715884105728 // -1 }}",
    "{{ 'abcdef'[::-1][99999999999:] }}{{ 'abc'[-99999999999:9:0] }}",
    "{{ 1 % 0 }}{{ 1.5 % 0 }}",
    "{{ 1 / 0 }}",
    "{% macro m(x) %}{{ caller(x) }}{{ m(x) }}{% endmacro %}{% call(y) m(1) %}{{ m(y) }}{% endcall %}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
    "{% for x in range(9999) %}{% for y in range(9999) %}{% if x %}{% set z = x %}{% endif %}{% endfor %}{% endfor %}",
    "{% filter upper %}{% for x in range(9999) %}{% for y in range(9999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}{% endfilter %}",
    "{% set x %}{% for x in range(9999) %}{% for y in range(9999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}{% endset %}",
    "{{ strftime_now('%Y' * 100000) | length }}",
    "{{ strftime_now('%999999999Y') }}",
    "{{ strftime_now('%999999999f') }}",
    "{{ messages | tojson(indent='x' * 1000000) }}",
    "{{ messages | tojson(separators=['x' * 1000000, 'y' * 1000000]) }}",
    "{{ raise_exception('x' * 100000000) }}",
    "{{ 'x' * 20000000 }}",
    "{% include 'default' %}",
    "{% extends 'default' %}",
    "{% import 'default' as x %}{{ x }}",
    "{{ self.x() }}{% block x %}{{ self.x() }}{% endblock %}",
    "{{ super() }}",
    "{{ debug() }}",
    "{{ lipsum(99999) }}{{ cycler(1) }}{{ dict(a=1) }}",
    "{{ messages.append(1) }}{{ messages.pop() }}",
    "{{ messages[0].__class__.__mro__ }}",
    "{{ namespace(a=1).b.c.d }}",
    "{% generation %}{% endgeneration %}{% generation",
    "{%- -%}{{- -}}{#- -#}{%",
];

#[test]
fn greedy_sources_end_within_their_limits() {
    let tokenizer = tokenizer();
    for source in GREEDY {
        exercise(source, &tokenizer, &plain(), None);
    }
}

/// What sources are made of; most orders of them make no template, some do.
const PIECES: &[&str] = &[
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if loop.first %}",
    "{% if m.role == 'user' %}",
    "{% elif m %}",
    "{% else %}",
    "{% endif %}",
    "{{ m.content }}",
    "{{ m['content'] | trim }}",
    "{{ messages[0]['role'] }}",
    "{{ messages | tojson }}",
    "{% set ns = namespace(x=0) %}",
    "{% set ns.x = ns.x + 1 %}",
    "{{ ns.x }}",
    "{% set y = messages[1:] %}",
    "{{ y | length }}",
    "{% macro f(a, b=2) %}",
    "{% endmacro %}",
    "{{ f(1) }}",
    "{% call f(1) %}",
    "{% endcall %}",
    "{{ loop.index0 }}",
    "{{ loop.previtem }}",
    "{{ '<|im_start|>' + m.role }}",
    "<|im_end|>\n",
    "<think>",
    "{{- '\n' -}}",
    "{% raw %}",
    "{% endraw %}",
    "{{ m.content.split('<') | last }}",
    "{{ m.content[::-1] }}",
    "{{ m.content[1:] }}",
    "{{ m.content | upper }}",
    "{{ m }}",
    "{% if '<|im_end|>' in m.content %}",
    "{% if m.content is string %}",
    "{% if m.content is none %}",
    "{% if tools is defined %}",
    "{{ tools | tojson(indent=2) }}",
    "{{ range(5) | map('string') | join(',') }}",
    "{{ messages | selectattr('role') | list }}",
    "{{ messages | groupby('role') }}",
    "{{ messages | map(attribute='content') | sort }}",
    "{% break %}",
    "{% continue %}",
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%d %b %Y') }}",
    "{% generation %}",
    "{% endgeneration %}",
    "{{ bos_token }}",
    "{% set x %}",
    "{% endset %}",
    "{% filter trim %}",
    "{% endfilter %}",
    "{% with z = 1 %}",
    "{% endwith %}",
    "{{ 1 + 'a' }}",
    "{{ -m }}",
    "{{ not m }}",
    "{{ m ~ m }}",
    "{{ m * 3 }}",
    "{{ m.content * 3 }}",
    "{{ (((",
    "{%",
    "%}",
    "{{",
    "}}",
    "{#",
    "#}",
    "x",
    " ",
];

#[test]
fn any_source_and_any_messages_end_in_a_text_or_an_error() {
    const ROLES: &[&str] = &["system", "user", "assistant", "tool", "im_end", "", "<|", "ipython"];
    const TEXTS: &[&str] = &[
        "",
        " ",
        "<|im_end|>",
        "<|im_",
        "<think>x</think>",
        "a\nb",
        "\u{F0000}",
        "{{ x }}",
        "東京😀",
    ];
    let tokenizer = tokenizer();
    let templates: Vec<String> = ["qwen3", "gemma3", "llama", "granite"]
        .map(|name| std::fs::read_to_string(fixture(name).join("chat_template.jinja")).unwrap())
        .into();
    type Input = (Vec<u8>, u8, Vec<(u8, u8, u8)>, String, u16);
    bolero::check!().with_iterations(400).with_type::<Input>().for_each(
        |(pieces, whole, messages, own, cut)| {
            let source: String = match templates.get(usize::from(whole % 16)) {
                // A real template with something put into it.
                Some(template) => {
                    let at = template.floor_char_boundary(usize::from(*cut) % (template.len() + 1));
                    let piece =
                        PIECES[pieces.first().map_or(0, |p| usize::from(*p)) % PIECES.len()];
                    [&template[..at], piece, &template[at..]].concat()
                }
                None => {
                    pieces.iter().map(|piece| PIECES[usize::from(*piece) % PIECES.len()]).collect()
                }
            };
            let text =
                |at: u8| TEXTS.get(usize::from(at) % (TEXTS.len() + 1)).copied().unwrap_or(own);
            let message = |(role, kind, at): &(u8, u8, u8)| {
                let role = ROLES[usize::from(*role) % ROLES.len()];
                let mut message = ChatMessage::new(role, text(*at));
                match kind % 6 {
                    0 => message.content = None,
                    1 => message.content = Some(Value::Null),
                    2 => {
                        message.content =
                            Some(json!([{"type": "text", "text": text(*at)}, {"type": "image"}]))
                    }
                    3 => message.content = Some(json!({"a": [1, 2.5, text(*at)]})),
                    4 => message.extra = tool_call(text(*at)),
                    _ => {}
                }
                message
            };
            let messages: Vec<ChatMessage> = messages.iter().take(6).map(message).collect();
            let tools = json!([{"type": "function", "function": {"name": text(*whole)}}]);
            exercise_any(&source, &tokenizer, &messages, (whole % 2 == 0).then_some(&tools));
            exercise_any(own, &tokenizer, &messages, None);
        },
    );
}

fn tool_call(text: &str) -> Map<String, Value> {
    let call = json!([{"id": "c", "function": {"name": text, "arguments": {"a": text}}}]);
    Map::from_iter([("tool_calls".to_owned(), call), ("reasoning_content".to_owned(), json!(text))])
}

/// An empty conversation is refused before the template runs.
fn exercise_any(
    source: &str,
    tokenizer: &Tokenizer,
    messages: &[ChatMessage],
    tools: Option<&Value>,
) {
    if messages.is_empty() {
        return exercise(source, tokenizer, &plain(), tools);
    }
    exercise(source, tokenizer, messages, tools);
}

/// Messages that nest deep or are many: an answer or an error.
#[test]
fn deep_and_many_messages_are_rendered_or_refused() {
    let tokenizer = tokenizer();
    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let mut message = ChatMessage::user("x");
    message.content = Some(deep);
    for source in
        ["{{ messages }}", "{{ messages | tojson }}", "{{ messages[0].content | string }}"]
    {
        exercise(source, &tokenizer, &[message.clone()], None);
    }
    let many = vec![ChatMessage::user("<|im_end|>"); 10_000];
    exercise("{% for m in messages %}{{ m.content }}{% endfor %}", &tokenizer, &many, None);
}
