//! Counting a stream's tokens.

use tokenmill::Usage as Counts;

use crate::wire::{StreamOptions, reply::Usage};

/// The tokens of a stream so far, and whether every choice has ended.
#[derive(Debug)]
pub struct Tally {
    prompt: usize,
    cached: usize,
    completion: Vec<usize>,
    finished: usize,
}

impl Tally {
    /// Nothing yet of that many choices.
    pub fn new(choices: usize) -> Tally {
        Tally { prompt: 0, cached: 0, completion: vec![0; choices], finished: 0 }
    }

    /// A prompt has been taken in.
    pub fn prompt(&mut self, tokens: usize, cached: usize) {
        self.prompt += tokens;
        self.cached += cached;
    }

    /// A choice has grown.
    pub fn grow(&mut self, choice: usize, tokens: usize) {
        if let Some(count) = self.completion.get_mut(choice) {
            *count += tokens;
        }
    }

    /// A choice has ended; its own count is the right one.
    pub fn finish(&mut self, choice: usize, counts: Counts) {
        self.finished += 1;
        if let Some(count) = self.completion.get_mut(choice) {
            *count = counts.completion_tokens;
        }
    }

    /// Whether every choice has ended.
    pub fn is_complete(&self) -> bool {
        self.finished == self.completion.len()
    }

    /// The counts so far.
    pub fn usage(&self) -> Usage {
        Usage::new(self.prompt, self.completion.iter().sum(), self.cached)
    }

    /// What a chunk that is not the last says about usage.
    pub fn in_chunk(&self, options: StreamOptions) -> Option<Option<Usage>> {
        let running = options.continuous_usage.then(|| self.usage());
        (options.include_usage || running.is_some()).then_some(running)
    }
}
