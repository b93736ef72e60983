//! The threads of the backend: a pool of its own, and the ways in which work is dealt out over it.
//!
//! How work is dealt never shows in a result: every piece is computed by itself.

use rayon::prelude::*;

use crate::simd::rectangle::Rectangle;

/// A pool of threads.
#[derive(Debug)]
pub struct Threads {
    pool: rayon::ThreadPool,
}

/// Below this many elements a pass over rows is not worth waking another thread for.
const SERIAL_ELEMENTS: usize = 32 * 1024;

impl Threads {
    /// A pool of `count` threads.
    pub fn new(count: usize) -> Result<Threads, rayon::ThreadPoolBuildError> {
        let name = |index| format!("cpu-{index}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(name).build()?;
        Ok(Threads { pool })
    }

    /// Number of threads.
    pub fn count(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` on the pool; what it deals out runs there too. A panic comes back to the caller.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// Does `work` with each item.
    pub fn each<T: Send>(&self, items: Vec<T>, work: impl Fn(T) + Sync + Send) {
        match items.len() {
            1 => items.into_iter().for_each(work),
            _ => items.into_par_iter().with_max_len(1).for_each(work),
        }
    }

    /// Does `work(row, elements)` with the first `count` rows of a buffer whose rows are `stride` elements long.
    pub fn rows(
        &self,
        buffer: &mut [f32],
        stride: usize,
        count: usize,
        work: impl Fn(usize, &mut [f32]) + Sync + Send,
    ) {
        let rows = &mut buffer[..count * stride];
        if rows.len() < SERIAL_ELEMENTS {
            rows.chunks_mut(stride).enumerate().for_each(|(row, elements)| work(row, elements));
        } else {
            rows.par_chunks_mut(stride).enumerate().for_each(|(row, elements)| work(row, elements));
        }
    }

    /// `items` numbers cut into pieces of a multiple of `unit`, at least `least` each, enough to keep every thread busy.
    pub fn pieces(&self, items: usize, unit: usize, least: usize) -> Vec<usize> {
        const PIECES_A_THREAD: usize = 4;
        let even = items.div_ceil(self.count() * PIECES_A_THREAD);
        let piece = even.max(least).next_multiple_of(unit);
        (0..items).step_by(piece).map(|from| piece.min(items - from)).collect()
    }
}

/// A piece of work that fills a rectangle.
#[derive(Debug)]
pub struct Piece<'a, T> {
    /// What is to be done.
    pub task: T,
    /// Where the result goes.
    pub out: Rectangle<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_in_whole_units() {
        let threads = Threads::new(3).unwrap();
        for items in [0, 1, 5, 32, 100, 3071, 3072] {
            let pieces = threads.pieces(items, 4, 16);
            assert_eq!(pieces.iter().sum::<usize>(), items);
            assert!(pieces.iter().rev().skip(1).all(|piece| piece % 4 == 0 && *piece >= 16));
        }
    }

    #[test]
    fn a_panic_comes_back() {
        let threads = Threads::new(2).unwrap();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            threads.enter(|| threads.each(vec![1, 2, 3], |item| assert_ne!(item, 2)));
        }));
        assert!(outcome.is_err());
        threads.enter(|| threads.each(vec![1, 2], |_| {}));
    }
}
