//! What was launched last, for the day a device fault is reported: it names the call that noticed, never the one at fault.

use std::{fmt, sync::Arc};

/// Launches that are remembered.
const KEPT: usize = 64;

/// A ring of the last launches, written before each.
#[derive(Clone, Debug)]
pub struct FlightRecorder {
    /// The entry of launch `n` is at `n % KEPT`.
    entries: Vec<Entry>,
    /// Launches so far.
    count: u64,
    /// While a graph is captured nothing is launched: what goes into it.
    captured: Option<Vec<&'static str>>,
}

#[derive(Clone, Debug)]
enum Entry {
    Kernel {
        name: &'static str,
        grid: [u32; 3],
        block: u32,
        shared: u32,
    },
    /// A product of the library: rows, columns, width.
    Product {
        rows: u32,
        n: u32,
        k: u32,
    },
    Graph(Arc<str>),
}

impl Default for FlightRecorder {
    fn default() -> Self {
        FlightRecorder { entries: Vec::with_capacity(KEPT), count: 0, captured: None }
    }
}

impl FlightRecorder {
    /// Notes a launch that is about to happen.
    pub fn note(&mut self, name: &'static str, grid: [u32; 3], block: u32, shared: u32) {
        match &mut self.captured {
            Some(names) => names.push(name),
            None => self.push(Entry::Kernel { name, grid, block, shared }),
        }
    }

    /// Notes a product that the library is about to launch.
    pub fn note_product(&mut self, rows: u32, n: u32, k: u32) {
        match &mut self.captured {
            Some(names) => names.push("cuBLASLt"),
            None => self.push(Entry::Product { rows, n, k }),
        }
    }

    /// Notes a graph that is about to be replayed, by what its capture gave.
    pub fn note_graph(&mut self, kernels: &Arc<str>) {
        self.push(Entry::Graph(Arc::clone(kernels)));
    }

    /// From here on launches are captured.
    pub fn begin_capture(&mut self) {
        self.captured = Some(Vec::new());
    }

    /// The capture has ended: what it holds, each kernel once with its count, in the order of their first launches.
    pub fn end_capture(&mut self) -> Arc<str> {
        let mut counted: Vec<(&str, usize)> = Vec::new();
        for name in self.captured.take().unwrap_or_default() {
            match counted.iter_mut().find(|known| known.0 == name) {
                Some(known) => known.1 += 1,
                None => counted.push((name, 1)),
            }
        }
        let told = counted.iter().map(|(name, count)| format!("{count} {name}"));
        told.collect::<Vec<_>>().join(", ").into()
    }

    fn push(&mut self, entry: Entry) {
        match self.entries.get_mut((self.count % KEPT as u64) as usize) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.count += 1;
    }
}

/// One line a launch, the last one first.
impl fmt::Display for FlightRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.count.saturating_sub(KEPT as u64);
        for number in (first..self.count).rev() {
            match &self.entries[(number % KEPT as u64) as usize] {
                Entry::Kernel { name, grid, block, shared } => {
                    writeln!(f, "#{number} {name} grid {grid:?} block {block} shared {shared}")?;
                }
                Entry::Product { rows, n, k } => {
                    writeln!(f, "#{number} cuBLASLt rows {rows} n {n} k {k}")?;
                }
                Entry::Graph(kernels) => writeln!(f, "#{number} graph of {kernels}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_launches_come_first_and_the_oldest_are_forgotten() {
        let mut recorder = FlightRecorder::default();
        for number in 0..KEPT as u32 + 3 {
            recorder.note("rms_norm", [number, 1, 1], 128, 0);
        }
        let text = recorder.to_string();
        assert_eq!(text.lines().count(), KEPT);
        assert!(text.starts_with("#66 rms_norm grid [66, 1, 1] block 128"), "{text}");
        assert!(!text.contains("[2, 1, 1]"));
    }

    #[test]
    fn a_graph_is_one_line_that_names_its_kernels_and_its_capture_is_none() {
        let mut recorder = FlightRecorder::default();
        recorder.begin_capture();
        for name in ["embed", "skinny", "attention", "skinny", "attention"] {
            recorder.note(name, [1, 1, 1], 32, 0);
        }
        recorder.note_product(64, 4096, 1024);
        let kernels = recorder.end_capture();
        assert_eq!(recorder.to_string(), "");
        recorder.note_graph(&kernels);
        recorder.note_product(64, 4096, 1024);
        let wanted = "#1 cuBLASLt rows 64 n 4096 k 1024\n\
                      #0 graph of 1 embed, 2 skinny, 2 attention, 1 cuBLASLt\n";
        assert_eq!(recorder.to_string(), wanted);
    }
}
