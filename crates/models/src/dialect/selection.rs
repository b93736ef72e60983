//! Which dialect a model speaks.

use std::collections::BTreeSet;

use super::{Calls, DIALECTS, Dialect, Reasoning};
use crate::prompt::PromptError;

/// The option that names the parser of calls.
pub const CALL_PARSER: &str = "tool_call_parser";
/// The option that names the parser of reasoning.
pub const REASONING_PARSER: &str = "reasoning_parser";
/// The name that turns a parser off.
const NONE: &str = "none";

/// The parsers for a model: one for calls, one for reasoning, mostly of one dialect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    calls: Option<&'static Dialect>,
    reasoning: Option<&'static Dialect>,
    /// Calls are left in the text because somebody wants it so.
    calls_off: bool,
}

impl Selection {
    /// The parsers by name, or, where none is named, those that the source of the chat template tells of.
    ///
    /// # Errors
    /// [`PromptError::Invalid`] for a name that is not known, with those that are; and for half a dialect whose halves
    /// cannot be parted.
    pub fn new(
        template: Option<&str>,
        calls: Option<&str>,
        reasoning: Option<&str>,
    ) -> Result<Selection, PromptError> {
        let mut selection = Selection {
            calls: match calls {
                Some(name) => named(CALL_PARSER, name, call_names)?,
                None => told(template, |dialect| Some(dialect.calls.as_ref()?.told_by)),
            },
            calls_off: calls == Some(NONE),
            reasoning: match reasoning {
                Some(name) => named(REASONING_PARSER, name, reasoning_names)?,
                None => told(template, |dialect| Some(dialect.reasoning.as_ref()?.told_by)),
            },
        };
        // Who names one half of a dialect of messages means the other too.
        match (calls, reasoning) {
            (Some(_), None) if selection.reads_messages() => selection.reasoning = selection.calls,
            (None, Some(_)) if selection.reads_messages() => selection.calls = selection.reasoning,
            _ => {}
        }
        selection.check()
    }

    fn check(self) -> Result<Selection, PromptError> {
        let name = |half: Option<&Dialect>| half.map_or(NONE, |dialect| dialect.name);
        let (calls, reasoning) = (name(self.calls), name(self.reasoning));
        if self.reads_messages() && calls != reasoning {
            return Err(PromptError::Invalid {
                field: REASONING_PARSER.into(),
                reason: format!(
                    "is {reasoning:?} and {CALL_PARSER} is {calls:?}, but messages with headers are read by one dialect or \
                     none: name harmony for both, or none for both"
                ),
            });
        }
        Ok(self)
    }

    /// The name of the parser of calls, as the option spells it.
    pub fn call_parser(&self) -> Option<&'static str> {
        self.calls().and_then(|calls| calls.names.first().copied())
    }

    /// Whether nobody would find a call, without anybody having asked for that.
    pub fn lacks_calls(&self) -> bool {
        self.calls.is_none() && !self.calls_off
    }

    /// The name of the parser of reasoning, as the option spells it.
    pub fn reasoning_parser(&self) -> Option<&'static str> {
        self.reasoning().and_then(|reasoning| reasoning.names.first().copied())
    }

    /// Texts that a parser has to see although the tokenizer may call them special.
    pub fn marks(&self, calls: bool) -> impl Iterator<Item = &'static str> {
        let calls = self.calls().filter(|_| calls).map_or(&[][..], |half| half.marks);
        let reasoning = self.reasoning().map_or(&[][..], |half| half.marks);
        let marks: BTreeSet<_> = calls.iter().chain(reasoning).copied().collect();
        marks.into_iter()
    }

    /// Whether a prompt leaves off within the reasoning: templates of models that always reason end with the opening mark.
    pub fn opens_reasoning(&self, prompt: &str) -> bool {
        let Some(inline) = self.reasoning().and_then(|half| half.inline.as_ref()) else {
            return false;
        };
        prompt.trim_end().ends_with(inline.open.trim_end())
    }

    /// Whether a message that is to be continued leaves off within the reasoning.
    pub fn leaves_reasoning_open(&self, message: &str) -> bool {
        let inline = self.reasoning().and_then(|half| half.inline.as_ref());
        inline.is_some_and(|inline| match message.rfind(inline.open) {
            Some(at) => !message[at..].contains(inline.close),
            None => false,
        })
    }

    pub(super) fn calls(&self) -> Option<&'static Calls> {
        self.calls.and_then(|dialect| dialect.calls.as_ref())
    }

    pub(super) fn reasoning(&self) -> Option<&'static Reasoning> {
        self.reasoning.and_then(|dialect| dialect.reasoning.as_ref())
    }

    /// The text that ends reasoning which stands before an answer.
    pub fn reasoning_close(&self) -> Option<&'static str> {
        Some(self.reasoning()?.inline.as_ref()?.close)
    }

    /// Whether the answer is a sequence of messages with headers.
    pub fn reads_messages(&self) -> bool {
        let calls = self.calls().is_some_and(|half| half.inline.is_none());
        calls || self.reasoning().is_some_and(|half| half.inline.is_none())
    }
}

type Names = fn(&Dialect) -> &'static [&'static str];

fn call_names(dialect: &Dialect) -> &'static [&'static str] {
    dialect.calls.as_ref().map_or(&[], |half| half.names)
}

fn reasoning_names(dialect: &Dialect) -> &'static [&'static str] {
    dialect.reasoning.as_ref().map_or(&[], |half| half.names)
}

fn named(option: &str, name: &str, names: Names) -> Result<Option<&'static Dialect>, PromptError> {
    if name == NONE {
        return Ok(None);
    }
    let found = DIALECTS.iter().copied().find(|dialect| names(dialect).contains(&name));
    found.map(Some).ok_or_else(|| {
        let known: Vec<&str> =
            DIALECTS.iter().flat_map(|dialect| names(dialect)).copied().collect();
        PromptError::Invalid {
            field: option.to_owned(),
            reason: format!("{name:?} is not known; there are {}, {NONE}", known.join(", ")),
        }
    })
}

/// Whether a template tells of a half.
type ToldBy = fn(&str) -> bool;

fn told(template: Option<&str>, half: fn(&Dialect) -> Option<ToldBy>) -> Option<&'static Dialect> {
    let template = template?;
    DIALECTS.iter().copied().find(|dialect| half(dialect).is_some_and(|told_by| told_by(template)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(template: &str) -> (Option<&'static str>, Option<&'static str>) {
        let selection = Selection::new(Some(template), None, None).unwrap();
        (selection.call_parser(), selection.reasoning_parser())
    }

    /// What tells, out of the templates as they are published.
    #[test]
    fn templates_tell() {
        let qwen3 = r#"{{- '<tool_call>\n{"name": "' }}{%- if enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}"#;
        assert_eq!(names(qwen3), (Some("hermes"), Some("qwen3")));
        let qwen2_5 =
            r#"{{- '\n<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}"#;
        assert_eq!(names(qwen2_5), (Some("hermes"), None));
        let llama3_1 = r#"{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{{- '"parameters": ' }}{{- tool_call.arguments | tojson }}"#;
        assert_eq!(names(llama3_1), (Some("llama3_json"), None));
        let r1_llama = "{{'<｜Assistant｜><think>\\n'}}{% if '</think>' in content %}";
        assert_eq!(names(r1_llama), (None, Some("qwen3")));
        let mistral = r#"{{- "[TOOL_CALLS] [" }}{%- for tool_call in message.tool_calls %}"#;
        assert_eq!(names(mistral), (Some("mistral"), None));
        let magistral = r#"{{- "[TOOL_CALLS]" + name + "[ARGS]" }}{{- '[THINK]' + block['thinking'] + '[/THINK]' }}"#;
        assert_eq!(names(magistral), (Some("mistral"), Some("mistral")));
        let functiongemma = "{{- '<start_function_call>call:' -}}{{- '<end_function_call>' -}}";
        assert_eq!(names(functiongemma), (Some("gemma"), None));
        let gemma4 =
            "{{- '<|tool_call>call:' + function['name'] + '{' -}}{{- '<|channel>thought\\n' -}}";
        assert_eq!(names(gemma4), (Some("gemma"), Some("gemma")));
        let gpt_oss = r#"{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}"#;
        assert_eq!(names(gpt_oss), (Some("harmony"), Some("harmony")));
    }

    #[test]
    fn templates_of_others_tell_nothing() {
        let llama3 = "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}";
        let gemma3 = "{{ '<start_of_turn>' + role + '\n' }}{{ '<end_of_turn>\n' }}";
        let qwen3_coder = "{{- '\\n<tool_call>\\n<function=' + tool_call.name + '>\\n' }}";
        for template in [llama3, gemma3, qwen3_coder, ""] {
            assert_eq!(names(template), (None, None), "{template}");
        }
    }

    #[test]
    fn names_beat_the_template_and_unknown_ones_are_refused() {
        let select =
            |calls, reasoning| Selection::new(Some("<tool_call></think>"), calls, reasoning);
        let mistral = select(Some("mistral"), None).unwrap();
        assert_eq!(mistral.call_parser(), Some("mistral"));
        assert_eq!(mistral.reasoning_parser(), Some("qwen3"));
        let off = select(Some("none"), Some("none")).unwrap();
        assert_eq!((off.call_parser(), off.reasoning_parser()), (None, None));
        assert!(!off.lacks_calls());
        assert!(Selection::new(Some("of others"), None, None).unwrap().lacks_calls());
        let error = select(Some("hermess"), None).unwrap_err().to_string();
        assert!(error.starts_with("tool_call_parser: \"hermess\" is not known"), "{error}");
        for dialect in DIALECTS {
            for name in call_names(dialect) {
                assert!(error.contains(name), "{error} lacks {name}");
                assert_eq!(select(Some(name), Some("none")).is_ok(), dialect.name != "harmony");
            }
        }
        let error = select(None, Some("llama3_json")).unwrap_err().to_string();
        assert!(error.starts_with("reasoning_parser: "), "{error}");
    }

    #[test]
    fn harmony_is_whole_or_not_there() {
        let select = |calls, reasoning| Selection::new(Some("</think>"), calls, reasoning);
        let one = select(Some("openai"), None).unwrap();
        assert_eq!(one.reasoning_parser(), Some("harmony"));
        let other = select(None, Some("openai_gptoss")).unwrap();
        assert_eq!(other.call_parser(), Some("harmony"));
        let error = select(Some("harmony"), Some("qwen3")).unwrap_err().to_string();
        assert!(error.contains("name harmony for both"), "{error}");
    }

    #[test]
    fn prompts_that_open_the_reasoning() {
        let selection = Selection::new(Some("<think></think>"), None, None).unwrap();
        assert!(selection.opens_reasoning("<|im_start|>assistant\n<think>\n"));
        assert!(!selection.opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
        assert!(!selection.opens_reasoning("say <think><|im_end|>\n<|im_start|>assistant\n"));
        assert!(selection.leaves_reasoning_open("<think>well"));
        assert!(!selection.leaves_reasoning_open("<think>well</think>so"));
        let without = Selection::default();
        assert!(!without.opens_reasoning("<think>"));
    }

    #[test]
    fn marks_are_those_in_use() {
        let selection = Selection::new(Some("[TOOL_CALLS]</think>"), None, None).unwrap();
        let all: Vec<_> = selection.marks(true).collect();
        assert_eq!(all, ["</think>", "<think>", "[ARGS]", "[CALL_ID]", "[TOOL_CALLS]"]);
        assert_eq!(selection.marks(false).collect::<Vec<_>>(), ["</think>", "<think>"]);
    }
}
