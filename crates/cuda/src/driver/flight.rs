//! What was launched last, for the day a device fault is reported: it names the call that noticed, never the one at fault.

use std::fmt;

/// Launches that are remembered.
const KEPT: usize = 64;

/// A ring of the last launches, written before each.
#[derive(Clone, Debug)]
pub struct FlightRecorder {
    entries: [Entry; KEPT],
    /// Launches so far.
    count: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    kernel: &'static str,
    grid: [u32; 3],
    block: u32,
    shared: u32,
}

impl Default for FlightRecorder {
    fn default() -> Self {
        FlightRecorder { entries: [Entry::default(); KEPT], count: 0 }
    }
}

impl FlightRecorder {
    /// Notes a launch that is about to happen.
    pub fn note(&mut self, kernel: &'static str, grid: [u32; 3], block: u32, shared: u32) {
        self.entries[(self.count % KEPT as u64) as usize] = Entry { kernel, grid, block, shared };
        self.count += 1;
    }
}

/// One line a launch, the last one first.
impl fmt::Display for FlightRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.count.saturating_sub(KEPT as u64);
        for number in (first..self.count).rev() {
            let Entry { kernel, grid, block, shared } =
                self.entries[(number % KEPT as u64) as usize];
            writeln!(f, "#{number} {kernel} grid {grid:?} block {block} shared {shared}")?;
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
}
