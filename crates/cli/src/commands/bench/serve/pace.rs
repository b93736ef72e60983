//! When requests are sent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future;
use serde::Serialize;
use tokio::time;

use crate::{
    commands::bench::{
        client::{Ask, Sample, Server},
        trace::Trace,
        workload,
    },
    error::Error,
};

/// How closely requests follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Pace {
    /// So many are under way at any time.
    #[serde(rename = "concurrency")]
    Together(u32),
    /// So many are sent a second, as a Poisson process, however many are under way.
    #[serde(rename = "rate_per_s")]
    Rate(f64),
}

impl Pace {
    /// For tables and pictures.
    pub fn label(self) -> String {
        match self {
            Pace::Together(count) => count.to_string(),
            Pace::Rate(rate) => format!("{rate}/s"),
        }
    }

    /// Sends all chains, each one's requests in their order, and waits for the answers.
    pub async fn send(self, server: Server, chains: Vec<Vec<Ask>>, seed: u64) -> Vec<Sample> {
        match self {
            Pace::Together(count) => together(server, chains, count as usize).await,
            Pace::Rate(rate) => {
                let requests: usize = chains.iter().map(Vec::len).sum();
                // Turns behind a first one come when it is answered, so that all requests together have the rate.
                let rate = rate * chains.len() as f64 / requests.max(1) as f64;
                let arrivals = workload::poisson_arrivals(seed, chains.len(), rate);
                at_their_times(server, chains, arrivals).await
            }
        }
    }
}

async fn at_their_times(
    server: Server,
    chains: Vec<Vec<Ask>>,
    arrivals: Vec<Duration>,
) -> Vec<Sample> {
    let start = Instant::now();
    let send = |(chain, arrival): (Vec<Ask>, Duration)| {
        let server = server.clone();
        tokio::spawn(async move {
            let due = start + arrival;
            time::sleep_until(due.into()).await;
            in_turn(&server, &chain, due).await
        })
    };
    let answers = future::join_all(chains.into_iter().zip(arrivals).map(send)).await;
    answers.into_iter().flat_map(|joined| joined.unwrap_or_else(lost)).collect()
}

async fn together(server: Server, chains: Vec<Vec<Ask>>, count: usize) -> Vec<Sample> {
    let workers = count.min(chains.len());
    let shared = Arc::new((AtomicUsize::new(0), chains));
    let worker = |_| {
        let (server, shared) = (server.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let (next, chains) = &*shared;
            let mut samples = Vec::new();
            while let Some(chain) = chains.get(next.fetch_add(1, Ordering::Relaxed)) {
                samples.extend(in_turn(&server, chain, Instant::now()).await);
            }
            samples
        })
    };
    let answers = future::join_all((0..workers).map(worker)).await;
    answers.into_iter().flat_map(|joined| joined.unwrap_or_else(lost)).collect()
}

/// Sends a chain's requests, the first one due at a moment, each further one when the last is answered.
async fn in_turn(server: &Server, chain: &[Ask], mut due: Instant) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(chain.len());
    for ask in chain {
        samples.push(server.stream(ask, due).await);
        due = Instant::now();
    }
    samples
}

/// A task that broke takes its requests with it; that it did is told.
fn lost(error: tokio::task::JoinError) -> Vec<Sample> {
    let failure = Some(Error::io("a request's task", error.into()));
    vec![Sample { trace: Trace::start(), failure }]
}
