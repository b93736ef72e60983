//! Which numbers are shown, under which names. The only list of them.
//!
//! Each is shown under the name that vLLM's dashboards know, where they know one, and under our own prefix.

use runtime::engine::{HistogramSnapshot, MetricsSnapshot};

use super::{HttpCounters, text::Text};
use crate::state::ServedModel;

/// One number of an engine.
struct Family {
    /// Name after the prefix.
    name: &'static str,
    /// Also shown as `vllm:NAME`.
    known_to_dashboards: bool,
    help: &'static str,
    read: Read,
}

/// Takes a count out of a snapshot.
type Count = fn(&MetricsSnapshot) -> u64;

/// Where a number is found in a snapshot.
enum Read {
    Gauge(fn(&MetricsSnapshot) -> f64),
    Counter(Count),
    /// Counters told apart by a label: its name, and a value for each.
    Labelled(&'static str, &'static [(&'static str, Count)]),
    Histogram(fn(&MetricsSnapshot) -> &HistogramSnapshot),
}

const fn shared(name: &'static str, help: &'static str, read: Read) -> Family {
    Family { name, known_to_dashboards: true, help, read }
}

const fn own(name: &'static str, help: &'static str, read: Read) -> Family {
    Family { name, known_to_dashboards: false, help, read }
}

const FAMILIES: &[Family] = &[
    shared(
        "num_requests_running",
        "Requests that take part in steps.",
        Read::Gauge(|m| m.running as f64),
    ),
    shared("num_requests_waiting", "Requests that wait.", Read::Gauge(|m| m.waiting as f64)),
    shared("kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1.", Read::Gauge(kv_usage)),
    shared(
        "prompt_tokens_total",
        "Prompt tokens of started requests.",
        Read::Counter(|m| m.prompt_tokens),
    ),
    shared("generation_tokens_total", "Tokens generated.", Read::Counter(|m| m.generation_tokens)),
    shared(
        "prefix_cache_queries_total",
        "Prompt tokens looked up in the prefix cache.",
        Read::Counter(|m| m.prefix_query_tokens),
    ),
    shared(
        "prefix_cache_hits_total",
        "Prompt tokens found in the prefix cache.",
        Read::Counter(|m| m.prefix_hit_tokens),
    ),
    shared(
        "num_preemptions_total",
        "Sequences that gave up their blocks for a while.",
        Read::Counter(|m| m.preemptions),
    ),
    shared(
        "spec_decode_num_drafts_total",
        "Runs that verified guesses.",
        Read::Counter(|m| m.drafts),
    ),
    shared(
        "spec_decode_num_draft_tokens_total",
        "Guesses verified.",
        Read::Counter(|m| m.draft_tokens),
    ),
    shared(
        "spec_decode_num_accepted_tokens_total",
        "Guesses that were right.",
        Read::Counter(|m| m.accepted_tokens),
    ),
    own(
        "spec_decode_mean_accepted_length",
        "Tokens that a run with guesses gave on average, the one that it gives anyway included.",
        Read::Gauge(mean_accepted_length),
    ),
    shared(
        "request_success_total",
        "Requests that ended, by reason.",
        Read::Labelled(
            "finished_reason",
            &[
                ("stop", |m| m.requests_stopped),
                ("length", |m| m.requests_length),
                ("abort", |m| m.requests_cancelled),
                ("timeout", |m| m.requests_timed_out),
                ("error", |m| m.requests_failed),
            ],
        ),
    ),
    shared(
        "time_to_first_token_seconds",
        "From arrival to the first token.",
        Read::Histogram(|m| &m.time_to_first_token),
    ),
    shared(
        "inter_token_latency_seconds",
        "Between two tokens of a request.",
        Read::Histogram(|m| &m.inter_token_latency),
    ),
    shared(
        "e2e_request_latency_seconds",
        "From arrival to the end.",
        Read::Histogram(|m| &m.e2e_latency),
    ),
    shared(
        "request_queue_time_seconds",
        "From arrival to the first step.",
        Read::Histogram(|m| &m.queue_time),
    ),
    shared(
        "request_prompt_tokens",
        "Prompt tokens of a finished request.",
        Read::Histogram(|m| &m.request_prompt_tokens),
    ),
    shared(
        "request_generation_tokens",
        "Generated tokens of a finished request.",
        Read::Histogram(|m| &m.request_generation_tokens),
    ),
    own(
        "requests_refused_total",
        "Requests that were not taken in.",
        Read::Counter(|m| m.requests_refused),
    ),
    own(
        "kv_restored_tokens_total",
        "Tokens whose KV blocks came back from the host instead of being computed again.",
        Read::Counter(|m| m.restored_tokens),
    ),
    own(
        "kv_offload_blocks_total",
        "KV blocks copied to the host and back, copies to the host that came to nothing, and cached blocks that were dropped for good.",
        Read::Labelled(
            "what",
            &[
                ("out", |m| m.kv_blocks_out),
                ("in", |m| m.kv_blocks_in),
                ("void", |m| m.kv_blocks_void),
                ("lost", |m| m.kv_blocks_lost),
            ],
        ),
    ),
    own(
        "kv_offload_bytes_total",
        "Bytes of KV blocks copied to the host and back.",
        Read::Labelled("way", &[("out", |m| m.kv_bytes_out), ("in", |m| m.kv_bytes_in)]),
    ),
    own(
        "kv_host_usage_perc",
        "Share of the host's room for KV blocks that is in use, 0 to 1.",
        Read::Gauge(host_usage),
    ),
    own("steps_total", "Steps of the engine.", Read::Counter(|m| m.steps)),
    own(
        "computed_tokens_total",
        "Token rows computed, repeated ones included.",
        Read::Counter(|m| m.computed_tokens),
    ),
    own("step_seconds", "Time of a step.", Read::Histogram(|m| &m.step_time)),
    own("step_tokens", "Token rows in a step.", Read::Histogram(|m| &m.step_tokens)),
    own(
        "mask_seconds",
        "From a token of a constrained request to the mask of its next one.",
        Read::Histogram(|m| &m.mask_time),
    ),
];

/// Every number of every model, and the server's own.
pub fn render(models: &[ServedModel], http: &HttpCounters) -> String {
    let snapshots: Vec<(&str, MetricsSnapshot)> =
        models.iter().map(|served| (served.name(), served.model.metrics())).collect();
    let mut text = Text::default();
    for family in FAMILIES {
        if family.known_to_dashboards {
            write_family(&mut text, &format!("vllm:{}", family.name), family, &snapshots);
        }
        write_family(&mut text, &format!("tokenmill_{}", family.name), family, &snapshots);
    }
    write_http(&mut text, http);
    text.finish()
}

fn write_family(
    text: &mut Text,
    name: &str,
    family: &Family,
    snapshots: &[(&str, MetricsSnapshot)],
) {
    text.family(name, family.read.kind(), family.help);
    for (model, seen) in snapshots {
        let labels = [("model_name", *model)];
        match &family.read {
            Read::Gauge(read) => text.sample(name, &labels, read(seen)),
            Read::Counter(read) => text.sample(name, &labels, read(seen) as f64),
            Read::Labelled(label, values) => {
                for (value, read) in *values {
                    text.sample(name, &[labels[0], (*label, *value)], read(seen) as f64);
                }
            }
            Read::Histogram(read) => text.histogram(name, &labels, read(seen)),
        }
    }
}

fn write_http(text: &mut Text, http: &HttpCounters) {
    let name = "tokenmill_http_requests_total";
    text.family(name, "counter", "HTTP replies, by route, method and status.");
    for ((route, method, status), count) in http.snapshot() {
        let status = status.to_string();
        let labels = [("route", &route[..]), ("method", &method[..]), ("status", &status[..])];
        text.sample(name, &labels, count as f64);
    }
}

impl Read {
    fn kind(&self) -> &'static str {
        match self {
            Read::Gauge(_) => "gauge",
            Read::Counter(_) | Read::Labelled(..) => "counter",
            Read::Histogram(_) => "histogram",
        }
    }
}

fn mean_accepted_length(seen: &MetricsSnapshot) -> f64 {
    match seen.drafts {
        0 => 0.0,
        drafts => 1.0 + seen.accepted_tokens as f64 / drafts as f64,
    }
}

fn host_usage(seen: &MetricsSnapshot) -> f64 {
    match seen.host_blocks_total {
        0 => 0.0,
        total => seen.host_blocks_used as f64 / total as f64,
    }
}

fn kv_usage(seen: &MetricsSnapshot) -> f64 {
    match seen.kv_blocks_total {
        0 => 0.0,
        total => seen.kv_blocks_used as f64 / total as f64,
    }
}
