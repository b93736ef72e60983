//! Where readers put what they have read.

use super::{DialectEvent, Ids};

/// Gathers events, joins neighbours, counts the calls and names them.
#[derive(Debug)]
pub(crate) struct Sink {
    events: Vec<DialectEvent>,
    next: usize,
    /// The call that was begun and is not complete.
    open: Option<usize>,
    ids: Ids,
    seed: u64,
}

impl Sink {
    /// `seed` makes the ids; another seed for each answer keeps them apart.
    pub fn new(ids: Ids, seed: u64) -> Self {
        Sink { events: Vec::new(), next: 0, open: None, ids, seed }
    }

    pub fn take(&mut self) -> Vec<DialectEvent> {
        std::mem::take(&mut self.events)
    }

    pub fn content(&mut self, text: &str) {
        match self.events.last_mut() {
            _ if text.is_empty() => {}
            Some(DialectEvent::Content(whole)) => whole.push_str(text),
            _ => self.events.push(DialectEvent::Content(text.to_owned())),
        }
    }

    pub fn reasoning(&mut self, text: &str) {
        match self.events.last_mut() {
            _ if text.is_empty() => {}
            Some(DialectEvent::Reasoning(whole)) => whole.push_str(text),
            _ => self.events.push(DialectEvent::Reasoning(text.to_owned())),
        }
    }

    pub fn start(&mut self, name: &str) {
        let index = self.next;
        self.next += 1;
        self.open = Some(index);
        let id = self.id(index);
        self.events.push(DialectEvent::ToolCallStart { index, id, name: name.to_owned() });
    }

    pub fn arguments(&mut self, text: &str) {
        let Some(index) = self.open else { return };
        match self.events.last_mut() {
            Some(DialectEvent::ToolCallArguments { delta, .. }) => delta.push_str(text),
            _ => {
                let delta = text.to_owned();
                self.events.push(DialectEvent::ToolCallArguments { index, delta });
            }
        }
    }

    pub fn end(&mut self) {
        if let Some(index) = self.open.take() {
            self.events.push(DialectEvent::ToolCallEnd { index });
        }
    }

    /// A whole call at once.
    pub fn call(&mut self, name: &str, arguments: &str) {
        self.start(name);
        self.arguments(arguments);
        self.end();
    }

    /// What was read as a call is `text` after all.
    pub fn withdraw(&mut self, text: &str) {
        if let Some(index) = self.open.take() {
            self.events.push(DialectEvent::ToolCallWithdrawn { index });
        }
        self.content(text);
    }

    fn id(&self, index: usize) -> String {
        let (prefix, length) = match self.ids {
            Ids::Long => ("call_", 24),
            Ids::Nine => ("", 9),
        };
        const LETTERS: &[u8; 62] =
            b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut state = self.seed ^ (index as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let letter = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            char::from(LETTERS[(scrambled(state) % LETTERS.len() as u64) as usize])
        };
        prefix.chars().chain(std::iter::repeat_with(letter).take(length)).collect()
    }
}

/// The finaliser of SplitMix64.
fn scrambled(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_by_call_and_by_answer_and_have_the_form() {
        let id = |ids, seed, index| Sink::new(ids, seed).id(index);
        assert_eq!(id(Ids::Nine, 1, 0).len(), 9);
        assert!(id(Ids::Nine, 1, 0).chars().all(|c| c.is_ascii_alphanumeric()));
        assert!(id(Ids::Long, 1, 0).starts_with("call_"));
        assert_ne!(id(Ids::Long, 1, 0), id(Ids::Long, 1, 1));
        assert_ne!(id(Ids::Long, 1, 0), id(Ids::Long, 2, 0));
        assert_eq!(id(Ids::Long, 1, 0), id(Ids::Long, 1, 0));
    }
}
