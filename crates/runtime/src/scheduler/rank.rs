//! The order in which sequences are served.

use std::time::Duration;

use foundation::RequestId;

/// Smaller is served first: by the moment of arrival, each level of priority counting as [`HEAD_START`] of waiting. So a request
/// is overtaken only by those that arrive within a bounded time after it, and nobody waits for ever behind the more important;
/// requests of one priority are served in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    /// Arrival less the head start, in milliseconds of the engine's clock.
    due: i64,
    /// The request; they are numbered in order of arrival.
    pub id: RequestId,
}

/// What a level of priority is worth.
pub const HEAD_START: Duration = Duration::from_secs(10);

impl Rank {
    /// The rank of request `id`, which arrived at `arrival` by the engine's clock; a larger `priority` is served sooner.
    pub fn new(priority: i32, arrival: Duration, id: RequestId) -> Self {
        let arrival = i64::try_from(arrival.as_millis()).unwrap_or(i64::MAX);
        let head_start = i64::from(priority) * HEAD_START.as_millis() as i64;
        Rank { due: arrival.saturating_sub(head_start), id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(priority: i32, seconds: u64, id: u64) -> Rank {
        Rank::new(priority, Duration::from_secs(seconds), RequestId(id))
    }

    #[test]
    fn a_level_is_worth_ten_seconds_and_no_more() {
        assert!(rank(0, 5, 1) < rank(0, 5, 2), "equal ones in order of arrival");
        assert!(rank(1, 9, 2) < rank(0, 0, 1), "more important, nine seconds later");
        assert!(rank(0, 0, 1) < rank(1, 10, 2), "ten seconds later is too late");
        assert!(rank(0, 0, 1) < rank(-1, 0, 0));
        assert!(rank(i32::MAX, 1 << 30, 2) < rank(i32::MIN, 0, 1), "extremes do not wrap");
        assert!(rank(i32::MIN, 0, 1) < rank(i32::MAX, u64::MAX, 2), "nor does the clock");
    }
}
