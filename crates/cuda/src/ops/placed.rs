//! What the operations that put a weight into the arena share: the host's side of `placed.cuh`.

use super::Unsupported;
use crate::driver::Shape;

/// Threads of a block, each with 8 elements at a time.
const THREADS: u32 = 256;
/// Elements that a thread places at once.
const WIDTH: u64 = 8;
/// More blocks than any GPU runs at once have nothing to gain: threads go on by the whole grid.
const MOST_BLOCKS: u64 = 4096;

/// Where elements go: in runs of `run` elements, each beginning `pitch` elements behind the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// How many.
    pub elements: u64,
    /// Elements that lie one after another; where it is less than `elements`, the first one begins a run.
    pub run: u64,
    /// Elements from the first of a run to the first of the next.
    pub pitch: u64,
}

impl Placement {
    /// Elements from the first place to the end of the last, gaps included.
    pub fn extent(&self) -> u64 {
        match self.elements {
            0 => 0,
            elements => {
                let last = elements - 1;
                last / self.run * self.pitch + last % self.run + 1
            }
        }
    }
}

/// How elements are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) placement: Placement,
    blocks: u32,
}

impl Plan {
    /// The plan for a placement.
    pub fn new(placement: &Placement) -> Result<Plan, Unsupported> {
        let Placement { elements, run, pitch } = *placement;
        let is_whole = |count: u64| count.is_multiple_of(WIDTH);
        let fits = is_whole(elements) && is_whole(run) && is_whole(pitch) && run > 0;
        if !fits || pitch < run {
            return Err(Unsupported {
                operation: "placing of a weight",
                seen: format!("{elements} elements in runs of {run}, {pitch} apart"),
                requirement: format!("multiples of {WIDTH}, and runs that do not overlap"),
            });
        }
        let blocks = elements.div_ceil(WIDTH * u64::from(THREADS)).min(MOST_BLOCKS);
        Ok(Plan { placement: *placement, blocks: blocks as u32 })
    }

    /// Nothing is to be done.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    pub(super) fn shape(&self) -> Shape {
        Shape { overlap: false, ..Shape::linear(self.blocks, THREADS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_ends_with_the_last_element() {
        let extent = |elements, run, pitch| Placement { elements, run, pitch }.extent();
        assert_eq!(extent(0, 8, 16), 0);
        assert_eq!(extent(24, 24, 24), 24);
        assert_eq!(extent(24, 8, 16), 40);
        assert_eq!(extent(8, 64, 128), 8);
    }

    #[test]
    fn what_a_thread_cannot_place_at_once_is_refused() {
        let plan = |elements, run, pitch| Plan::new(&Placement { elements, run, pitch });
        for (elements, run, pitch) in [(7, 8, 8), (8, 4, 8), (16, 8, 12), (16, 0, 8), (16, 16, 8)] {
            assert!(plan(elements, run, pitch).is_err(), "{elements} {run} {pitch}");
        }
        assert!(plan(0, 8, 8).unwrap().is_empty());
        assert_eq!(plan(2056, 8, 16).unwrap().shape().grid, [2, 1, 1]);
        assert_eq!(plan(1 << 40, 1 << 40, 1 << 40).unwrap().shape().grid, [4096, 1, 1]);
    }
}
