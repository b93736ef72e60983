//! A conversation with a model.

use serde_json::{Value, json};

use crate::{
    CancellationToken,
    chat::{ChatMessage, ChatOptions},
    error::{Error, Result},
    generation::{Generation, GenerationEvent, ToolCall, ToolCalls},
    model::Model,
    options::GenerateOptions,
};

/// How a session talks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionOptions {
    /// What the model is told before the conversation.
    pub system: Option<String>,
    /// How the conversation is rendered.
    pub chat: ChatOptions,
    /// What each answer is asked for; `n` must be 1.
    pub generate: GenerateOptions,
}

/// A conversation: remembers what was said and sends it along. The prefix cache makes the repetition cheap.
///
/// ```
/// # fn main() -> tokenmill::Result<()> {
/// # use tokenmill::{GenerateOptions, Library, LibraryOptions, ModelOptions, SessionOptions};
/// # let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/llama-tied");
/// # let library = Library::new(LibraryOptions::default())?;
/// # let model = library.load(directory, ModelOptions::default(), &mut |_| true)?;
/// let generate = GenerateOptions { max_tokens: Some(6), ..Default::default() };
/// let mut session = model.session(SessionOptions { generate, ..Default::default() });
/// let answer = session.ask("Good morning.")?.text()?;
/// assert_eq!(session.history()[1].content, Some(answer.into()));
/// assert_eq!(session.undo().as_deref(), Some("Good morning."));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    model: Model,
    options: SessionOptions,
    history: Vec<ChatMessage>,
}

impl Session {
    pub(crate) fn new(model: Model, options: SessionOptions) -> Self {
        Session { model, options, history: Vec::new() }
    }

    /// Asks, and streams the answer. Question and answer enter the history when the answer ends or is dropped; the answer
    /// as far as it was read, so a cancelled one stays as the part that was seen. Where nothing was seen, nothing stays.
    ///
    /// # Errors
    /// Those of [`Model::chat`]; the history is then as before. [`Error::ContextLengthExceeded`] means that the
    /// conversation has grown too long: [`reset`](Self::reset) it or [`undo`](Self::undo).
    pub fn ask(&mut self, text: impl Into<String>) -> Result<Answer<'_>> {
        if self.options.generate.n.is_some_and(|n| n != 1) {
            return Err(Error::invalid("n", "a conversation goes on with one answer: n must be 1"));
        }
        let question = ChatMessage::user(text);
        let system = self.options.system.iter().map(ChatMessage::system);
        let messages = system.chain(self.history.iter().cloned()).chain([question.clone()]);
        let options = (self.options.chat.clone(), self.options.generate.clone());
        let generation = self.model.chat(messages.collect(), options.0, options.1)?;
        Ok(Answer {
            session: self,
            question: Some(question),
            generation,
            text: String::new(),
            reasoning: String::new(),
            calls: ToolCalls::default(),
            complete: false,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What was said so far, first to last; the system message is not among it.
    pub fn history(&self) -> &[ChatMessage] {
        &self.history
    }

    /// How the session talks.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// How the session talks, to be changed from the next question on.
    pub fn options_mut(&mut self) -> &mut SessionOptions {
        &mut self.options
    }

    /// Forgets the conversation; the system message stays.
    pub fn reset(&mut self) {
        self.history.clear();
    }

    /// Forgets the last question and its answer; gives the question back.
    pub fn undo(&mut self) -> Option<String> {
        let last = self.history.iter().rposition(|message| message.role == "user")?;
        let question = self.history.drain(last..).next()?;
        question.content?.as_str().map(str::to_owned)
    }
}

/// An answer under way: an iterator that blocks for each event. Enters the session's history when it ends or is dropped.
#[derive(Debug)]
pub struct Answer<'s> {
    session: &'s mut Session,
    question: Option<ChatMessage>,
    generation: Generation,
    text: String,
    reasoning: String,
    calls: ToolCalls,
    complete: bool,
}

impl Answer<'_> {
    /// A handle that cancels the answer from another thread.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.generation.cancellation_token()
    }

    /// Waits for the end and gives the text. Blocks the thread.
    pub fn text(mut self) -> Result<String> {
        for event in &mut self {
            event?;
        }
        Ok(self.text.clone())
    }
}

impl Iterator for Answer<'_> {
    type Item = Result<GenerationEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.generation.next_blocking();
        match &event {
            Some(Ok(GenerationEvent::Delta { text, reasoning, calls, .. })) => {
                self.text.push_str(text);
                self.reasoning.push_str(reasoning);
                calls.iter().cloned().for_each(|delta| self.calls.take(delta));
            }
            Some(Ok(GenerationEvent::Finished { .. })) => self.complete = true,
            _ => {}
        }
        event
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if !self.complete && self.text.is_empty() {
            return;
        }
        let mut answer = ChatMessage::assistant(std::mem::take(&mut self.text));
        // The template decides what of it the model sees again.
        if !self.reasoning.is_empty() {
            let reasoning = std::mem::take(&mut self.reasoning).into();
            answer.extra.insert("reasoning_content".to_owned(), reasoning);
        }
        let calls = std::mem::take(&mut self.calls).finish();
        if self.complete && !calls.is_empty() {
            let calls = calls.iter().map(wire_form).collect();
            answer.extra.insert("tool_calls".to_owned(), calls);
        }
        self.session.history.extend(self.question.take());
        self.session.history.push(answer);
    }
}

/// A call as templates read it: arguments are an object.
fn wire_form(call: &ToolCall) -> Value {
    let text = || Value::String(call.arguments.clone());
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| text());
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}
