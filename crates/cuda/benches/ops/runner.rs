//! Captures a case, replays it, prints its line.

use std::sync::Arc;

use cuda::{
    driver::{DriverError, Event, Gpu, Graph, Stream},
    ops::Traffic,
    testing,
};

/// What a bench may fail with.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Bytes a second that an H200 reads at most, measured: the floor of everything that memory bounds.
const BYTES_A_SECOND: f64 = 4.70e12;
/// Operations a second that an H200 multiplies matrices at, measured: the floor where memory is not.
const FLOPS_A_SECOND: f64 = 780e12;
const REPLAYS: usize = 30;

/// The GPU, and which cases are wanted.
pub struct Runner {
    pub gpu: Arc<Gpu>,
    pub stream: Stream,
    part: String,
}

impl Runner {
    /// `None` where there is no GPU, with a line that says so. `cargo bench` itself adds `--bench` to the arguments.
    pub fn from_arguments() -> Option<Runner> {
        let gpu = testing::gpu()?;
        let stream = Stream::new(&gpu).ok()?;
        let part = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
        Some(Runner { gpu, stream, part: part.unwrap_or_default() })
    }

    /// Whether the case was asked for.
    pub fn wants(&self, case: &str) -> bool {
        case.contains(&self.part)
    }

    /// Times `record`, which queues the case once, `repeats` times to a graph. It is given the number of the repetition, by
    /// which it may rotate what it reads.
    pub fn time(
        &self,
        case: &str,
        traffic: Traffic,
        repeats: usize,
        mut record: impl FnMut(&Stream, usize) -> Result<(), DriverError>,
    ) -> Outcome {
        if !self.wants(case) {
            return Ok(());
        }
        let graph = Graph::capture(&self.stream, |stream| {
            (0..repeats).try_for_each(|repetition| record(stream, repetition))
        })?;
        let (begin, end) = (Event::new(&self.gpu)?, Event::new(&self.gpu)?);
        let mut microseconds = Vec::with_capacity(REPLAYS);
        for replay in 0..REPLAYS + 3 {
            begin.record(&self.stream)?;
            graph.launch(&self.stream)?;
            end.record(&self.stream)?;
            end.synchronize()?;
            if replay >= 3 {
                microseconds.push(f64::from(end.elapsed_ms(&begin)?) * 1e3 / repeats as f64);
            }
        }
        microseconds.sort_by(f64::total_cmp);
        let at = |share: usize| microseconds[microseconds.len() * share / 100];
        let (p50, p90, bytes) = (at(50), at(90), traffic.bytes as f64);
        let floor = (bytes / BYTES_A_SECOND).max(traffic.flops as f64 / FLOPS_A_SECOND);
        let percent = 100.0 * floor * 1e6 / p50;
        println!(
            "{{\"case\": \"{case}\", \"us_p50\": {p50:.2}, \"us_p90\": {p90:.2}, \"bytes\": {bytes}, \"gb_s\": {:.0}, \
             \"percent_of_floor\": {percent:.0}}}",
            bytes / p50 / 1e3,
        );
        Ok(())
    }
}
