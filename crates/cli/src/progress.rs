//! Progress of long work: a bar on a terminal, now and then a line elsewhere.

use std::{
    collections::HashMap,
    process,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokenmill::{Bytes, ProgressEvent, hub::PullEvent};

use crate::{
    error::Exit,
    interrupt::{Guard, Interrupts},
    output::Output,
};

/// Between two lines where there is no terminal. Short work stays silent.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows one piece of work.
pub struct Progress<'a> {
    output: &'a Output,
    interrupts: &'a Interrupts,
    bar: ProgressBar,
    /// Whether there is a terminal to draw on, and leave to do so.
    is_seen: bool,
    last_line: Instant,
    pulled: HashMap<String, u64>,
}

impl<'a> Progress<'a> {
    /// Nothing is shown until the first event.
    pub fn new(output: &'a Output, interrupts: &'a Interrupts) -> Self {
        // Seen from the first event on: before, it would show a length that nobody knows.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let is_seen = output.stderr_is_terminal && !output.is_quiet();
        let (last_line, pulled) = (Instant::now(), HashMap::new());
        Progress { output, interrupts, bar, is_seen, last_line, pulled }
    }

    /// From now on, until the guard is dropped, Ctrl-C ends the program at once: for work that only reads.
    #[must_use = "the guard's end is the end of it"]
    pub fn ends_at_once(&self) -> Guard<'a> {
        let bar = self.bar.clone();
        self.interrupts.during(move || {
            bar.finish_and_clear();
            process::exit(Exit::Interrupted as i32);
        })
    }

    /// Shows a step of loading; `false` after Ctrl-C.
    pub fn loading(&mut self, event: ProgressEvent) -> bool {
        match event {
            ProgressEvent::LoadWeights { current, total, detail } => {
                self.show_bytes("loading", current.0, total.0, &detail);
            }
            ProgressEvent::Prepare { detail } => self.show_phase("preparing", &detail),
            ProgressEvent::Ready => self.bar.finish_and_clear(),
        }
        !self.interrupts.take()
    }

    /// Shows a step of a download; `false` after Ctrl-C.
    pub fn pulling(&mut self, event: PullEvent) -> bool {
        match event {
            PullEvent::Plan { commit, files, bytes } => {
                self.bar.set_length(bytes);
                self.note(&format!("{files} files, {}, commit {commit}", Bytes(bytes)));
            }
            PullEvent::Tick => self.bar.tick(),
            PullEvent::Waiting { file } => {
                self.note(&format!("another process is pulling {file}; waiting for it"));
            }
            PullEvent::File { file, current, .. } => {
                self.pulled.insert(file.clone(), current);
                let done = self.pulled.values().sum();
                let total = self.bar.length().unwrap_or(0).max(done);
                self.show_bytes("pulling", done, total, &file);
            }
            PullEvent::Done { file, bytes, cached } => {
                let how = if cached { "here already" } else { "done" };
                self.note(&format!("{file}: {}, {how}", Bytes(bytes)));
                self.pulled.insert(file, bytes);
            }
            PullEvent::Retry { file, attempt, reason } => {
                self.note(&format!("{file}: attempt {attempt} failed ({reason}); trying again"));
            }
        }
        !self.interrupts.take()
    }

    /// Shows a step of writing; `false` after Ctrl-C.
    pub fn writing(&mut self, done: Bytes, total: Bytes) -> bool {
        self.show_bytes("writing", done.0, total.0, "");
        !self.interrupts.take()
    }

    /// Counts single things done.
    pub fn counting(&mut self, what: &str, current: u64, total: u64) -> bool {
        self.bar.set_length(total);
        self.bar.set_position(current);
        self.draw("{prefix:>9} {bar:30} {pos}/{len} {elapsed}", what, "");
        !self.interrupts.take()
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn show_bytes(&mut self, what: &str, current: u64, total: u64, detail: &str) {
        if total == 0 {
            return self.show_phase(what, detail);
        }
        self.bar.set_length(total);
        self.bar.set_position(current);
        self.draw(
            "{prefix:>9} {bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {wide_msg:.dim}",
            what,
            detail,
        );
        let comma = if detail.is_empty() { "" } else { ", " };
        self.line(|| format!("{what}: {} of {}{comma}{detail}", Bytes(current), Bytes(total)));
    }

    fn show_phase(&mut self, what: &str, detail: &str) {
        self.draw("{prefix:>9} {wide_msg:.dim}", what, detail);
        self.line(|| format!("{what}: {detail}"));
    }

    /// Draws with what is known by now.
    fn draw(&self, template: &str, what: &str, detail: &str) {
        self.bar.set_style(style(template));
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(detail.to_owned());
        if self.is_seen && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.tick();
    }

    /// A line now and then, where no bar is seen.
    fn line(&mut self, text: impl FnOnce() -> String) {
        if !self.is_seen && self.last_line.elapsed() >= LINE_INTERVAL {
            self.last_line = Instant::now();
            self.output.note(text());
        }
    }

    /// A line that stays, above the bar if there is one.
    fn note(&self, text: &str) {
        self.bar.suspend(|| self.output.note(text));
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the templates are constants of this file")
        .progress_chars("━━╌")
}
