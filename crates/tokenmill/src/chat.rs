//! Conversations on their way into a prompt.

pub use models::prompt::ChatMessage;
use models::prompt::RenderOptions;
use serde_json::{Map, Value};

/// How a conversation is rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatOptions {
    /// Tools offered to the model: a JSON array of definitions, handed to the template. With them, calls are told from
    /// the text of the answer.
    pub tools: Option<Value>,
    /// Let an answer call several tools; `None`: yes. Otherwise it ends with its first call.
    pub parallel_tool_calls: Option<bool>,
    /// Documents for retrieval templates: a JSON array, handed to the template.
    pub documents: Option<Value>,
    /// End the prompt where the assistant's answer begins; `None`: yes, unless the last message is continued.
    pub add_generation_prompt: Option<bool>,
    /// Continue the last message instead of answering it.
    pub continue_final_message: bool,
    /// Keyword arguments for the template (`enable_thinking`, ...).
    pub template_kwargs: Map<String, Value>,
}

/// A conversation and how it is rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatRequest {
    /// The messages, first to last.
    pub messages: Vec<ChatMessage>,
    /// How they are rendered.
    pub options: ChatOptions,
}

impl ChatOptions {
    pub(crate) fn render_options(&self) -> RenderOptions {
        RenderOptions {
            add_generation_prompt: self
                .add_generation_prompt
                .unwrap_or(!self.continue_final_message),
            continue_final_message: self.continue_final_message,
            documents: self.documents.clone(),
            kwargs: self.template_kwargs.clone(),
            ..RenderOptions::default()
        }
    }
}
