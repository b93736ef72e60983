//! The moments by which requests must have ended.

use std::{collections::BTreeSet, time::Duration};

use foundation::RequestId;

/// Those of the requests under way, by the engine's clock.
#[derive(Debug, Default)]
pub(super) struct Deadlines(BTreeSet<(Duration, RequestId)>);

impl Deadlines {
    /// Request `id` must have ended by `moment`.
    pub(super) fn add(&mut self, moment: Duration, id: RequestId) {
        self.0.insert((moment, id));
    }

    /// It has ended.
    pub(super) fn remove(&mut self, moment: Duration, id: RequestId) {
        self.0.remove(&(moment, id));
    }

    /// A request whose time is over at `now`; the one with the earliest deadline.
    pub(super) fn passed(&self, now: Duration) -> Option<RequestId> {
        self.0.first().filter(|(moment, _)| *moment <= now).map(|(_, id)| *id)
    }

    /// The time from `now` to the next deadline.
    pub(super) fn next_in(&self, now: Duration) -> Option<Duration> {
        self.0.first().map(|(moment, _)| moment.saturating_sub(now))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_passes_first_and_one_that_has_ended_never() {
        let (ms, id) = (Duration::from_millis, RequestId);
        let mut deadlines = Deadlines::default();
        deadlines.add(ms(30), id(1));
        deadlines.add(ms(10), id(2));
        deadlines.add(ms(20), id(3));
        assert_eq!((deadlines.passed(ms(9)), deadlines.next_in(ms(4))), (None, Some(ms(6))));
        assert_eq!(deadlines.passed(ms(10)), Some(id(2)));
        deadlines.remove(ms(10), id(2));
        deadlines.remove(ms(20), id(3));
        assert_eq!(deadlines.passed(ms(25)), None);
        assert_eq!(
            (deadlines.passed(ms(99)), deadlines.next_in(ms(99))),
            (Some(id(1)), Some(ms(0)))
        );
        assert_eq!(deadlines.len(), 1);
    }
}
