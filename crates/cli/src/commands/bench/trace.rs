//! What was seen of one request, and what many of them amount to.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::stats::Summary;

/// When the tokens of one request came.
#[derive(Clone, Debug)]
pub struct Trace {
    sent: Instant,
    first: Option<Instant>,
    last: Instant,
    gaps: Vec<Duration>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the answer.
    pub output_tokens: usize,
}

impl Trace {
    /// A request is sent now.
    pub fn start() -> Self {
        let sent = Instant::now();
        Trace {
            sent,
            first: None,
            last: sent,
            gaps: Vec::new(),
            prompt_tokens: 0,
            output_tokens: 0,
        }
    }

    /// Tokens came now, together.
    pub fn tick(&mut self, tokens: usize) {
        if tokens == 0 {
            return;
        }
        let now = Instant::now();
        match self.first {
            None => self.first = Some(now),
            Some(_) => self.gaps.push(now - self.last),
        }
        self.last = now;
        self.output_tokens += tokens;
    }

    /// From the request to its first token.
    pub fn time_to_first(&self) -> Option<Duration> {
        Some(self.first? - self.sent)
    }

    /// The mean time of a token after the first.
    fn time_per_token(&self) -> Option<Duration> {
        let further = u32::try_from(self.output_tokens.checked_sub(1)?).ok()?;
        (self.last - self.first?).checked_div(further)
    }
}

/// Many requests together.
#[derive(Clone, Debug, Serialize)]
pub struct Measures {
    /// Requests that came to their end.
    pub requests: usize,
    /// From the first request sent to the last token.
    pub wall_s: f64,
    /// Tokens of all prompts.
    pub prompt_tokens: usize,
    /// Tokens of all answers.
    pub output_tokens: usize,
    /// Prompt tokens a second over the whole time.
    pub prompt_tokens_per_s: f64,
    /// Answer tokens a second over the whole time.
    pub output_tokens_per_s: f64,
    /// Both together.
    pub total_tokens_per_s: f64,
    /// From each request to its first token.
    pub time_to_first_token: Option<Summary>,
    /// Mean time of each request's tokens after the first.
    pub time_per_output_token: Option<Summary>,
    /// Between two deliveries of the same answer.
    pub inter_token_latency: Option<Summary>,
}

impl Measures {
    /// Of requests measured over one stretch of time.
    pub fn of(traces: &[Trace]) -> Self {
        Self::over(traces, span(traces).as_secs_f64())
    }

    /// Of requests whose stretches of time add up to `wall_s`.
    pub fn over(traces: &[Trace], wall_s: f64) -> Self {
        let sum = |tokens: fn(&Trace) -> usize| traces.iter().map(tokens).sum::<usize>();
        let prompt_tokens = sum(|trace| trace.prompt_tokens);
        let output_tokens = sum(|trace| trace.output_tokens);
        let per_second = |tokens: usize| if wall_s > 0.0 { tokens as f64 / wall_s } else { 0.0 };
        let times = |time: fn(&Trace) -> Option<Duration>| -> Option<Summary> {
            Summary::of(&traces.iter().filter_map(time).collect::<Vec<_>>())
        };
        let gaps: Vec<Duration> = traces.iter().flat_map(|trace| trace.gaps.clone()).collect();
        Measures {
            requests: traces.len(),
            wall_s,
            prompt_tokens,
            output_tokens,
            prompt_tokens_per_s: per_second(prompt_tokens),
            output_tokens_per_s: per_second(output_tokens),
            total_tokens_per_s: per_second(prompt_tokens + output_tokens),
            time_to_first_token: times(Trace::time_to_first),
            time_per_output_token: times(Trace::time_per_token),
            inter_token_latency: Summary::of(&gaps),
        }
    }
}

/// From the first request sent to the last token.
pub fn span(traces: &[Trace]) -> Duration {
    let sent = traces.iter().map(|trace| trace.sent).min();
    let last = traces.iter().map(|trace| trace.last).max();
    sent.zip(last).map(|(sent, last)| last - sent).unwrap_or_default()
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

    fn trace(start: Instant, at_ms: &[u64]) -> Trace {
        let moment = |ms: &u64| start + Duration::from_millis(*ms);
        let moments: Vec<Instant> = at_ms.iter().map(moment).collect();
        Trace {
            sent: start,
            first: moments.first().copied(),
            last: moments.last().copied().unwrap_or(start),
            gaps: moments.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            prompt_tokens: 100,
            output_tokens: moments.len(),
        }
    }

    #[test]
    fn many_requests_amount_to_rates_and_times() {
        let start = Instant::now();
        let traces = [trace(start, &[100, 120, 140]), trace(start, &[200, 260, 500])];
        let measures = Measures::of(&traces);
        assert_eq!((measures.prompt_tokens, measures.output_tokens), (200, 6));
        assert!((measures.wall_s - 0.5).abs() < 1e-9);
        assert!((measures.output_tokens_per_s - 12.0).abs() < 1e-6);
        assert!((measures.total_tokens_per_s - 412.0).abs() < 1e-6);
        let first = measures.time_to_first_token.expect("both have a first token");
        assert!((first.p50_ms - 150.0).abs() < 1e-6);
        let per_token = measures.time_per_output_token.expect("both have further tokens");
        assert!((per_token.p50_ms - 85.0).abs() < 1e-6);
        assert!((prefill_rate(&traces) - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn a_request_without_tokens_has_no_times() {
        let start = Instant::now();
        let measures = Measures::of(&[trace(start, &[])]);
        assert_eq!(measures.output_tokens, 0);
        assert!(measures.time_to_first_token.is_none());
        assert!(measures.time_per_output_token.is_none());
    }
}
