//! A generation under way: events as they come, or the whole.
//!
//! One state machine serves both ways of waiting: [`Generation::poll_event`] moves it, a [`Stream`] polls it for a task, an
//! iterator polls it and parks its thread in between. Detokenising and stop strings happen here, on the consumer's side;
//! the engine knows token ids only.

mod cancel;
mod event;
mod lane;
mod output;
mod text;

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use foundation::{ModelId, TokenId};
use futures::Stream;

pub use cancel::CancellationToken;
pub use event::{
    Choice, FinishReason, GenerationEvent, Output, StopReason, TokenLogprob, ToolCall,
    ToolCallDelta, TopLogprob, Usage,
};
pub(crate) use lane::{Lane, LaneRules};
pub(crate) use output::ToolCalls;
pub(crate) use text::{DialectRules, TextRules};

use crate::error::{Error, Result};
use output::OutputBuilder;

/// A generation under way. Read it as a [`Stream`] (async), with `for event in generation` (blocking), or whole with
/// [`output`](Self::output) and [`text`](Self::text). Dropping it cancels what is not finished.
///
/// An `Err` item is the last one.
///
/// ```
/// # fn main() -> tokenmill::Result<()> {
/// # use tokenmill::{GenerateOptions, Library, LibraryOptions, ModelOptions, TokenId};
/// # let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/llama-tied");
/// # let library = Library::new(LibraryOptions::default())?;
/// # let model = library.load(directory, ModelOptions::default(), &mut |_| true)?;
/// use tokenmill::GenerationEvent;
///
/// let prompt = vec![TokenId(506), TokenId(70), TokenId(261)];
/// let options = GenerateOptions { max_tokens: Some(5), ignore_eos: true, ..Default::default() };
/// let mut tokens = 0;
/// for event in model.generate(prompt, options)? {
///     match event? {
///         GenerationEvent::Prompt { tokens, .. } => assert_eq!(tokens.len(), 3),
///         GenerationEvent::Delta { tokens: new, .. } => tokens += new.len(),
///         GenerationEvent::Finished { usage, .. } => assert_eq!(usage.completion_tokens, tokens),
///     }
/// }
/// assert_eq!(tokens, 5);
/// # Ok(())
/// # }
/// ```
pub struct Generation {
    model: ModelId,
    seed: u64,
    prompt: Arc<[TokenId]>,
    lanes: Vec<Lane>,
    /// Lane that is asked first next time, so that none starves behind a fast one.
    turn: usize,
    prompt_sent: bool,
    ready: VecDeque<Result<GenerationEvent>>,
    cancellation: CancellationToken,
}

impl Generation {
    /// Merges `lanes`, one a choice.
    pub(crate) fn new(model: ModelId, seed: u64, prompt: Arc<[TokenId]>, lanes: Vec<Lane>) -> Self {
        let cancellation = CancellationToken::new(lanes.iter().filter_map(Lane::canceller));
        Generation {
            model,
            seed,
            prompt,
            lanes,
            turn: 0,
            prompt_sent: false,
            ready: VecDeque::new(),
            cancellation,
        }
    }

    /// The seed of the first choice; choice `i` draws from `seed + i`.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The prompt's tokens.
    pub fn prompt(&self) -> &Arc<[TokenId]> {
        &self.prompt
    }

    /// A handle that cancels this generation from another thread or task.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.cancellation.clone()
    }

    /// The next event, if there is one already; otherwise the task of `context` is woken when there may be. `None` after
    /// the last.
    pub fn poll_event(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<GenerationEvent>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.lanes.iter().all(Lane::is_done) {
                return Poll::Ready(None);
            }
            if !self.poll_lanes(context) {
                return Poll::Pending;
            }
        }
    }

    /// Blocks the thread for the next event. `None` after the last.
    pub fn next_blocking(&mut self) -> Option<Result<GenerationEvent>> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match self.poll_event(&mut context) {
                Poll::Ready(event) => return event,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// Waits for the end. Blocks the thread.
    pub fn output(mut self) -> Result<Output> {
        let mut builder = self.output_builder();
        while let Some(event) = self.next_blocking() {
            builder.take(event?);
        }
        Ok(builder.finish())
    }

    /// Waits for the end.
    pub async fn output_async(mut self) -> Result<Output> {
        let mut builder = self.output_builder();
        while let Some(event) = std::future::poll_fn(|context| self.poll_event(context)).await {
            builder.take(event?);
        }
        Ok(builder.finish())
    }

    /// Waits for the end and gives the text of the first choice. Blocks the thread.
    pub fn text(self) -> Result<String> {
        let model = self.model.clone();
        let choice = self.output()?.choices.into_iter().next();
        choice
            .and_then(|choice| choice.text)
            .ok_or(Error::NoTokenizer { model, wanted: "text".into() })
    }

    /// Lets each lane that has something move once; says whether one did.
    fn poll_lanes(&mut self, context: &mut Context<'_>) -> bool {
        // The prompt is told from lane 0, before anything else: the others wait in their channels.
        let count = if self.prompt_sent { self.lanes.len() } else { 1 };
        self.turn = (self.turn + 1) % count;
        let mut moved = false;
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            moved |= self.poll_lane(index, context);
        }
        moved
    }

    fn poll_lane(&mut self, index: usize, context: &mut Context<'_>) -> bool {
        let lane = &mut self.lanes[index];
        let Poll::Ready(event) = lane.poll(context) else { return false };
        let mut events = Vec::new();
        let outcome = lane.take(event, self.cancellation.is_cancelled(), &mut events);
        if !self.prompt_sent && (lane.knows_prompt() || lane.is_done() || outcome.is_err()) {
            self.prompt_sent = true;
            self.ready.push_back(Ok(lane.prompt_event(&self.prompt)));
        }
        self.ready.extend(events.into_iter().map(Ok));
        if let Err(error) = outcome {
            self.ready.push_back(Err(error));
            self.lanes.iter_mut().for_each(Lane::abandon);
        }
        true
    }

    fn output_builder(&self) -> OutputBuilder {
        let has_text = self.lanes.first().is_some_and(Lane::has_text);
        OutputBuilder::new(Arc::clone(&self.prompt), self.lanes.len(), has_text)
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation")
            .field("model", &self.model)
            .field("prompt_tokens", &self.prompt.len())
            .field("choices", &self.lanes.len())
            .finish_non_exhaustive()
    }
}

impl Stream for Generation {
    type Item = Result<GenerationEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(context)
    }
}

/// The events of a generation, each waited for with the thread blocked.
#[derive(Debug)]
pub struct Events(Generation);

impl Iterator for Events {
    type Item = Result<GenerationEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_blocking()
    }
}

impl IntoIterator for Generation {
    type Item = Result<GenerationEvent>;
    type IntoIter = Events;

    fn into_iter(self) -> Events {
        Events(self)
    }
}

/// Wakes a thread that waits for an event.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
