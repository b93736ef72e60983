//! Every metric of the engine: declared once, with unit and meaning; written by the engine thread, read by anyone
//! without stopping it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations counted by size.
    Histogram,
}

/// One row of the table of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricDescription {
    /// Name, as the field of [`MetricsSnapshot`].
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: MetricKind,
    /// What one unit of it is.
    pub unit: &'static str,
    /// What it counts.
    pub meaning: &'static str,
}

macro_rules! declare {
    (
        counters { $($counter:ident [$counter_unit:literal] $counter_text:literal;)* }
        gauges { $($gauge:ident [$gauge_unit:literal] $gauge_text:literal;)* }
        histograms { $($histogram:ident [$histogram_unit:literal] $bounds:ident $histogram_text:literal;)* }
    ) => {
        /// The live numbers. One writer, the engine thread (counters of refusals: any thread).
        #[derive(Debug)]
        pub(crate) struct Metrics {
            $(#[doc = $counter_text] pub(crate) $counter: Number,)*
            $(#[doc = $gauge_text] pub(crate) $gauge: Number,)*
            $(#[doc = $histogram_text] pub(crate) $histogram: Histogram,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                Metrics {
                    $($counter: Number::default(),)*
                    $($gauge: Number::default(),)*
                    $($histogram: Histogram::new($bounds),)*
                }
            }
        }

        impl Metrics {
            /// Reads every number; they may be a step apart from one another.
            pub(crate) fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot {
                    $($counter: self.$counter.get(),)*
                    $($gauge: self.$gauge.get(),)*
                    $($histogram: self.$histogram.snapshot(),)*
                }
            }
        }

        /// The engine's numbers at one moment.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct MetricsSnapshot {
            $(#[doc = concat!($counter_text, " Unit: ", $counter_unit, ".")] pub $counter: u64,)*
            $(#[doc = concat!($gauge_text, " Unit: ", $gauge_unit, ".")] pub $gauge: u64,)*
            $(#[doc = concat!($histogram_text, " Unit: ", $histogram_unit, ".")] pub $histogram: HistogramSnapshot,)*
        }

        /// Every metric, in the order of the fields of [`MetricsSnapshot`].
        pub const METRICS: &[MetricDescription] = &[
            $(MetricDescription { name: stringify!($counter), kind: MetricKind::Counter,
                unit: $counter_unit, meaning: $counter_text },)*
            $(MetricDescription { name: stringify!($gauge), kind: MetricKind::Gauge,
                unit: $gauge_unit, meaning: $gauge_text },)*
            $(MetricDescription { name: stringify!($histogram), kind: MetricKind::Histogram,
                unit: $histogram_unit, meaning: $histogram_text },)*
        ];
    };
}

/// Latencies, in seconds.
const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0,
    10.0, 20.0, 40.0, 80.0, 160.0, 640.0,
];
/// Counts of tokens.
const TOKENS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5];

declare! {
    counters {
        prompt_tokens ["tokens"] "Prompt tokens of requests that were started, cached ones included.";
        generation_tokens ["tokens"] "Tokens generated and delivered.";
        prefix_query_tokens ["tokens"] "Prompt tokens looked up in the prefix index.";
        prefix_hit_tokens ["tokens"] "Prompt tokens found in the prefix index and not computed.";
        preemptions ["sequences"] "Sequences that gave up their blocks and were computed again.";
        requests_stopped ["requests"] "Requests ended by a stop or end token.";
        requests_length ["requests"] "Requests ended by a length limit.";
        requests_cancelled ["requests"] "Requests ended by their caller.";
        requests_timed_out ["requests"] "Requests ended by their time limit.";
        requests_failed ["requests"] "Requests that failed.";
        requests_refused ["requests"] "Requests that got no ticket.";
        steps ["steps"] "Steps committed.";
        drafts ["runs"] "Runs that verified guesses.";
        draft_tokens ["tokens"] "Guesses verified.";
        accepted_tokens ["tokens"] "Guesses that were right, each with one more token of its step.";
        restored_tokens ["tokens"] "Tokens whose blocks came back from the host and were not computed again.";
        kv_blocks_out ["blocks"] "Blocks copied to the host.";
        kv_blocks_in ["blocks"] "Blocks copied back from the host.";
        kv_blocks_void ["blocks"] "Copies to the host that were of no use: the block was evicted meanwhile.";
        kv_bytes_out ["bytes"] "Bytes of blocks copied to the host.";
        kv_bytes_in ["bytes"] "Bytes of blocks copied back from the host.";
        kv_blocks_lost ["blocks"] "Cached blocks that were evicted and lie nowhere else.";
        computed_tokens ["tokens"] "Token rows computed, recomputation and discarded ones included.";
    }
    gauges {
        running ["requests"] "Requests that take part in steps.";
        waiting ["requests"] "Requests that wait for their first step, or for another after preemption.";
        kv_blocks_used ["blocks"] "Blocks held by sequences, of the fullest KV group.";
        kv_blocks_total ["blocks"] "Blocks there are, of the same KV group.";
        host_blocks_used ["blocks"] "Slots on the host that keep blocks, of the fullest KV group.";
        host_blocks_total ["blocks"] "Slots there are on the host, of the same KV group.";
    }
    histograms {
        time_to_first_token ["seconds"] SECONDS "From submission to the first token.";
        inter_token_latency ["seconds"] SECONDS "Between two tokens of one request.";
        e2e_latency ["seconds"] SECONDS "From submission to the end.";
        queue_time ["seconds"] SECONDS "From submission to the first step.";
        step_time ["seconds"] SECONDS "From a step's submission, or its predecessor's end, to its end.";
        step_tokens ["tokens"] TOKENS "Token rows in a step.";
        mask_time ["seconds"] SECONDS "From a token of a constrained request to the mask of its next one.";
        request_prompt_tokens ["tokens"] TOKENS "Prompt tokens of a finished request.";
        request_generation_tokens ["tokens"] TOKENS "Generated tokens of a finished request.";
    }
}

/// One number that threads share.
#[derive(Debug, Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Observations counted by size.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what exceeds them all.
    counts: Vec<AtomicU64>,
    /// Sum of the observations, as the bits of an `f64`. One writer.
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0f64.to_bits()) }
    }

    pub(crate) fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Relaxed);
        let sum = f64::from_bits(self.sum.load(Relaxed)) + value;
        self.sum.store(sum.to_bits(), Relaxed);
    }

    fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            bounds: self.bounds,
            counts: self.counts.iter().map(|count| count.load(Relaxed)).collect(),
            sum: f64::from_bits(self.sum.load(Relaxed)),
        }
    }
}

/// A histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSnapshot {
    /// Upper ends of the buckets, inclusive, ascending; a last bucket without end follows.
    pub bounds: &'static [f64],
    /// Observations in each bucket (not cumulative), `bounds.len() + 1` of them.
    pub counts: Vec<u64>,
    /// Sum of all observations.
    pub sum: f64,
}

impl HistogramSnapshot {
    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Mean of the observations; 0 where there are none.
    pub fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum / self.count() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_on_a_bound_falls_below_it() {
        let metrics = Metrics::default();
        metrics.queue_time.observe(0.001);
        metrics.queue_time.observe(0.0011);
        metrics.queue_time.observe(1e9);
        let seen = metrics.snapshot().queue_time;
        assert_eq!((seen.counts[0], seen.counts[1]), (1, 1));
        assert_eq!(seen.counts.last(), Some(&1));
        assert_eq!(seen.count(), 3);
        assert!((seen.sum - (1e9 + 0.0021)).abs() < 1e-6);
    }

    #[test]
    fn every_metric_is_described_once() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
        assert!(METRICS.iter().all(|metric| metric.meaning.ends_with('.')));
    }
}
