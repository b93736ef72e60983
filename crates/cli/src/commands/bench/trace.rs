//! What was seen of one request, and what many of them amount to. docs/performance.md defines the times.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::stats::Summary;

/// When the tokens of one request came.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When it was to be sent, which may be before it was.
    due: Instant,
    sent: Instant,
    first: Option<Instant>,
    last: Instant,
    ended: Instant,
    /// Between two events with tokens.
    gaps: Vec<Duration>,
    /// Tokens of the first event.
    first_tokens: usize,
    /// Events with tokens whose text is not whole yet.
    blanks: usize,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them that the server found in its cache.
    pub cached_tokens: usize,
    /// Tokens of the answer.
    pub output_tokens: usize,
    /// The server did not count: tokens are taken for as many as events.
    pub is_estimated: bool,
    /// There are fewer tokens than the request demanded.
    pub is_short: bool,
}

impl Trace {
    /// A request is sent now.
    pub fn start() -> Self {
        Self::due(Instant::now())
    }

    /// A request is sent now that was to be sent at `due`.
    pub fn due(due: Instant) -> Self {
        let sent = Instant::now();
        Trace {
            due: due.min(sent),
            sent,
            first: None,
            last: sent,
            ended: sent,
            gaps: Vec::new(),
            first_tokens: 0,
            blanks: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            output_tokens: 0,
            is_estimated: false,
            is_short: false,
        }
    }

    /// Makes room for `events`, so that none waits for memory.
    pub fn reserve(&mut self, events: usize) {
        self.gaps.reserve(events);
    }

    /// Tokens came now, together.
    pub fn tick(&mut self, tokens: usize) {
        self.tick_at(Instant::now(), tokens);
    }

    /// Tokens came at a moment, together.
    pub fn tick_at(&mut self, now: Instant, tokens: usize) {
        if tokens == 0 {
            return;
        }
        match self.first {
            None => (self.first, self.first_tokens) = (Some(now), tokens),
            Some(_) => self.gaps.push(now - self.last),
        }
        (self.last, self.ended) = (now, now);
        self.output_tokens += tokens;
    }

    /// A token came whose text is not whole yet. Before the first text this is no first token: nobody could read it.
    pub fn blank_at(&mut self, now: Instant) {
        if self.has_begun() {
            self.blanks += 1;
            self.tick_at(now, 1);
        }
    }

    /// The last event brought no token of its own.
    pub fn forget_tail(&mut self) {
        if let Some(gap) = self.gaps.pop() {
            self.last -= gap;
            self.output_tokens -= 1;
        }
    }

    /// The answer is over, whole or not.
    pub fn end(&mut self) {
        self.ended = Instant::now();
    }

    /// Whether a token has come.
    pub fn has_begun(&self) -> bool {
        self.first.is_some()
    }

    /// Events that brought text.
    pub fn texts(&self) -> usize {
        self.events() - self.blanks
    }

    /// The last moment at which something came that was waited for: the sending, then each token.
    pub fn progressed(&self) -> Instant {
        self.last
    }

    /// How much later than planned it was sent.
    pub fn lag(&self) -> Duration {
        self.sent - self.due
    }

    /// From the moment at which the request was to be sent to its first token.
    pub fn time_to_first(&self) -> Option<Duration> {
        Some(self.first? - self.due)
    }

    /// From the moment at which the request was to be sent to its last token.
    fn latency(&self) -> Option<Duration> {
        self.first.map(|_| self.last - self.due)
    }

    /// The mean time of a token that came after the first event.
    fn time_per_token(&self) -> Option<Duration> {
        let further = u32::try_from(self.output_tokens.checked_sub(self.first_tokens)?).ok()?;
        (self.last - self.first?).checked_div(further)
    }

    fn events(&self) -> usize {
        self.gaps.len() + usize::from(self.has_begun())
    }
}

/// Many requests together.
#[derive(Clone, Debug, Serialize)]
pub struct Measures {
    /// Requests that came to their end.
    pub requests: usize,
    /// From the first request sent to the last one ended, however it ended.
    pub wall_s: f64,
    /// Tokens of all prompts.
    pub prompt_tokens: usize,
    /// Those of them that were found in a cache, as far as told.
    pub cached_tokens: usize,
    /// Tokens of all answers.
    pub output_tokens: usize,
    /// Tokens of an event in the mean.
    pub tokens_per_event: f64,
    /// Requests ended a second over the whole time.
    pub requests_per_s: f64,
    /// Prompt tokens a second over the whole time.
    pub prompt_tokens_per_s: f64,
    /// Answer tokens a second over the whole time.
    pub output_tokens_per_s: f64,
    /// Both together.
    pub total_tokens_per_s: f64,
    /// From each request to its first token.
    pub time_to_first_token: Option<Summary>,
    /// Mean time of each request's tokens after the first event.
    pub time_per_output_token: Option<Summary>,
    /// Between two events of the same answer.
    pub inter_token_latency: Option<Summary>,
    /// From each request to its last token.
    pub request_latency: Option<Summary>,
}

impl Measures {
    /// Of requests measured over one stretch of time.
    pub fn of(traces: &[Trace]) -> Self {
        Self::over(traces, span(traces).as_secs_f64())
    }

    /// Of requests whose stretches of time add up to `wall_s`.
    pub fn over(traces: &[Trace], wall_s: f64) -> Self {
        let sum = |count: fn(&Trace) -> usize| traces.iter().map(count).sum::<usize>();
        let (prompt_tokens, output_tokens) = (sum(|t| t.prompt_tokens), sum(|t| t.output_tokens));
        let per_second = |count: usize| if wall_s > 0.0 { count as f64 / wall_s } else { 0.0 };
        let times = |time: fn(&Trace) -> Option<Duration>| -> Option<Summary> {
            Summary::of(&traces.iter().filter_map(time).collect::<Vec<_>>())
        };
        let gaps: Vec<Duration> =
            traces.iter().flat_map(|trace| trace.gaps.iter().copied()).collect();
        Measures {
            requests: traces.len(),
            wall_s,
            prompt_tokens,
            cached_tokens: sum(|trace| trace.cached_tokens),
            output_tokens,
            tokens_per_event: output_tokens as f64 / sum(Trace::events).max(1) as f64,
            requests_per_s: per_second(traces.len()),
            prompt_tokens_per_s: per_second(prompt_tokens),
            output_tokens_per_s: per_second(output_tokens),
            total_tokens_per_s: per_second(prompt_tokens + output_tokens),
            time_to_first_token: times(Trace::time_to_first),
            time_per_output_token: times(Trace::time_per_token),
            inter_token_latency: Summary::of(&gaps),
            request_latency: times(Trace::latency),
        }
    }
}

/// From the first request sent to the last one ended.
pub fn span<'t>(traces: impl IntoIterator<Item = &'t Trace> + Clone) -> Duration {
    let sent = traces.clone().into_iter().map(|trace| trace.sent).min();
    let ended = traces.into_iter().map(|trace| trace.ended).max();
    sent.zip(ended).map(|(sent, ended)| ended - sent).unwrap_or_default()
}

/// Most requests that were under way at once.
pub fn peak<'t>(traces: impl Iterator<Item = &'t Trace>) -> usize {
    let mut changes: Vec<(Instant, bool)> =
        traces.flat_map(|trace| [(trace.sent, true), (trace.ended, false)]).collect();
    // Where one ends as another begins, the end comes first.
    changes.sort_unstable();
    let (mut now, mut most) = (0usize, 0);
    for (_, begins) in changes {
        now = if begins { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

/// How fast the batch's prompts were taken in: all prompt tokens over the time to the last first token, a second.
pub fn prefill_rate(traces: &[Trace]) -> f64 {
    let tokens: usize = traces.iter().map(|trace| trace.prompt_tokens).sum();
    let slowest = traces.iter().filter_map(Trace::time_to_first).max().unwrap_or_default();
    if slowest.is_zero() { 0.0 } else { tokens as f64 / slowest.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// Events with so many tokens, at so many milliseconds after `start`.
    fn trace(start: Instant, events: &[(u64, usize)]) -> Trace {
        let mut trace = Trace::due(start);
        (trace.sent, trace.last, trace.ended, trace.prompt_tokens) = (start, start, start, 100);
        for (ms, tokens) in events {
            trace.tick_at(after(start, *ms), *tokens);
        }
        trace
    }

    fn near(summary: Option<Summary>, p50_ms: f64) -> bool {
        summary.is_some_and(|summary| (summary.p50_ms - p50_ms).abs() < 1e-6)
    }

    #[test]
    fn many_requests_amount_to_rates_and_times() {
        let start = Instant::now();
        let traces = [
            trace(start, &[(100, 1), (120, 1), (140, 1)]),
            trace(start, &[(200, 1), (260, 1), (500, 1)]),
        ];
        let measures = Measures::of(&traces);
        assert_eq!((measures.prompt_tokens, measures.output_tokens), (200, 6));
        assert!((measures.wall_s - 0.5).abs() < 1e-9);
        assert!((measures.requests_per_s - 4.0).abs() < 1e-6);
        assert!((measures.output_tokens_per_s - 12.0).abs() < 1e-6);
        assert!((measures.total_tokens_per_s - 412.0).abs() < 1e-6);
        assert!(near(measures.time_to_first_token, 150.0));
        assert!(near(measures.time_per_output_token, 85.0));
        assert!(near(measures.inter_token_latency, 40.0));
        assert!(near(measures.request_latency, 320.0));
        assert!((prefill_rate(&traces) - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn a_token_counts_for_the_time_after_the_event_that_brought_it() {
        let start = Instant::now();
        // Three tokens in 60 ms behind the event that had four: 20 ms each, not 60 / 6.
        let measures = Measures::of(&[trace(start, &[(100, 4), (130, 2), (160, 1)])]);
        assert!(near(measures.time_per_output_token, 20.0));
        assert!(near(measures.inter_token_latency, 30.0));
        assert!((measures.tokens_per_event - 7.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn times_count_from_the_plan_and_the_lag_is_known() {
        let start = Instant::now();
        let mut trace = trace(start, &[]);
        trace.sent = after(start, 30);
        trace.tick_at(after(start, 100), 1);
        assert_eq!(trace.time_to_first(), Some(Duration::from_millis(100)));
        assert_eq!(trace.lag(), Duration::from_millis(30));
        assert!(Trace::due(after(Instant::now(), 1000)).lag().is_zero(), "nobody is early");
    }

    #[test]
    fn the_span_ends_with_the_last_request_whole_or_not() {
        let start = Instant::now();
        let mut failed = trace(start, &[(10, 1)]);
        failed.ended = after(start, 900);
        assert_eq!(span([&trace(start, &[(100, 1)]), &failed]), Duration::from_millis(900));
    }

    #[test]
    fn the_peak_counts_what_overlaps() {
        let start = Instant::now();
        let running = |from: u64, to: u64| {
            let mut trace = trace(start, &[]);
            (trace.sent, trace.ended) = (after(start, from), after(start, to));
            trace
        };
        let traces = [running(0, 10), running(10, 20), running(5, 30), running(12, 14)];
        assert_eq!(peak(traces.iter()), 3);
        assert_eq!(peak([].iter()), 0);
    }

    #[test]
    fn a_blank_is_an_event_but_never_the_first_token() {
        let start = Instant::now();
        let mut trace = trace(start, &[]);
        trace.blank_at(after(start, 50));
        assert!(!trace.has_begun());
        trace.tick_at(after(start, 60), 1);
        trace.blank_at(after(start, 70));
        assert_eq!(trace.time_to_first(), Some(Duration::from_millis(60)));
        assert_eq!((trace.texts(), trace.output_tokens, trace.gaps.len()), (1, 2, 1));
    }

    #[test]
    fn a_request_without_tokens_has_no_times() {
        let measures = Measures::of(&[trace(Instant::now(), &[])]);
        assert_eq!(measures.output_tokens, 0);
        assert!(measures.time_to_first_token.is_none());
        assert!(measures.time_per_output_token.is_none());
        assert!(measures.request_latency.is_none());
    }
}
