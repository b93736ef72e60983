//! The two ends of a request: the caller's [`Ticket`] and the engine's responder.

use std::{
    sync::mpsc::Sender,
    task::{Context, Poll},
};

use foundation::RequestId;
use tokio::sync::mpsc::{
    UnboundedReceiver, UnboundedSender, error::TryRecvError, unbounded_channel,
};

use super::{
    event::{EngineEvent, FinishReason, Usage},
    inbox::Command,
};

/// The caller's end. Exactly one [`EngineEvent::Finished`] arrives, as the last event. Dropping the ticket cancels.
#[derive(Debug)]
pub struct Ticket {
    id: RequestId,
    events: UnboundedReceiver<EngineEvent>,
    commands: Sender<Command>,
    finished: bool,
}

impl Ticket {
    /// The request's number, unique within the engine.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Waits for the next event; `None` after `Finished`.
    pub async fn next(&mut self) -> Option<EngineEvent> {
        if self.finished {
            return None;
        }
        let event = self.events.recv().await;
        self.note(event)
    }

    /// Blocks for the next event; `None` after `Finished`.
    ///
    /// # Panics
    /// When called from asynchronous code, which has [`Ticket::next`].
    pub fn next_blocking(&mut self) -> Option<EngineEvent> {
        if self.finished {
            return None;
        }
        let event = self.events.blocking_recv();
        self.note(event)
    }

    /// As [`Ticket::next`], for hand-written futures that wait for several tickets at once.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<EngineEvent>> {
        if self.finished {
            return Poll::Ready(None);
        }
        self.events.poll_recv(context).map(|event| self.note(event))
    }

    /// The next event if one is there already; `None` otherwise, and after `Finished`.
    pub fn try_next(&mut self) -> Option<EngineEvent> {
        if self.finished {
            return None;
        }
        match self.events.try_recv() {
            Ok(event) => self.note(Some(event)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => self.note(None),
        }
    }

    /// Asks the engine to end the request at the next step boundary. `Finished` still arrives: with
    /// [`FinishReason::Cancelled`], unless the request ended before the wish was heard.
    pub fn cancel(&self) {
        // A closed channel means that the engine is gone: the responder has answered or will.
        let _ = self.commands.send(Command::Cancel(self.id));
    }

    /// Ends the request because its text holds a stop string: it counts as stopped, not as cancelled. Text is the caller's
    /// business, so that the caller has the last word on it and hears no more events.
    pub fn stop(mut self) {
        self.finished = true;
        let _ = self.commands.send(Command::StopText(self.id));
    }

    /// A handle that cancels this request from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller { id: self.id, commands: self.commands.clone() }
    }

    fn note(&mut self, event: Option<EngineEvent>) -> Option<EngineEvent> {
        self.finished = matches!(event, None | Some(EngineEvent::Finished { .. }));
        event
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.finished {
            self.cancel();
        }
    }
}

/// Cancels a request from another place than its ticket.
#[derive(Clone, Debug)]
pub struct Canceller {
    id: RequestId,
    commands: Sender<Command>,
}

impl Canceller {
    /// As [`Ticket::cancel`].
    pub fn cancel(&self) {
        let _ = self.commands.send(Command::Cancel(self.id));
    }
}

/// The engine's end of a request. Whatever happens to it, one `Finished` is sent: by [`Responder::finish`], or by Drop.
#[derive(Debug)]
pub(crate) struct Responder {
    events: UnboundedSender<EngineEvent>,
    prompt_tokens: u32,
    finished: bool,
}

impl Responder {
    /// Both ends of request `id`.
    pub(crate) fn pair(
        id: RequestId,
        prompt_tokens: u32,
        commands: Sender<Command>,
    ) -> (Responder, Ticket) {
        let (sender, receiver) = unbounded_channel();
        let ticket = Ticket { id, events: receiver, commands, finished: false };
        (Responder { events: sender, prompt_tokens, finished: false }, ticket)
    }

    /// Sends an event that is not the last. A caller that has gone does not matter: its cancellation is on the way.
    pub(crate) fn send(&self, event: EngineEvent) {
        let _ = self.events.send(event);
    }

    /// Sends the last event.
    pub(crate) fn finish(mut self, reason: FinishReason, usage: Usage) {
        self.finished = true;
        let _ = self.events.send(EngineEvent::Finished { reason, usage });
    }

    /// Closes the request without an event: it was refused, and no ticket is handed out.
    pub(crate) fn withdraw(mut self) {
        self.finished = true;
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let usage = Usage { prompt_tokens: self.prompt_tokens, ..Usage::default() };
        let reason = FinishReason::Failed("the engine stopped before the request ended".into());
        let _ = self.events.send(EngineEvent::Finished { reason, usage });
    }
}
