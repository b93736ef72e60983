//! Masks of constrained rows, worked out beside the engine thread while it goes on with other rows.
//!
//! With each committed token a sequence's place in its constraint leaves for a worker, and comes back with the mask of the
//! next token, by the same way as commands do. Until then its row takes part in no step.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::Sender,
    time::Duration,
};

use foundation::{RequestId, TokenId};

use super::{
    inbox::Command,
    workers::{Work, Workers},
};
use crate::sampling::constraint::Followed;

/// A place in a constraint that comes back.
#[derive(Debug)]
pub(crate) struct MaskReply {
    pub(crate) id: RequestId,
    /// The commit that asked for it.
    round: u64,
    /// When it was asked for, by the engine's clock.
    pub(crate) asked: Duration,
    /// The place behind the token, or why nobody knows it.
    pub(crate) outcome: Result<Followed, String>,
}

/// What is away, and since when.
pub(super) struct Masks {
    workers: Box<dyn Workers>,
    replies: Sender<Command>,
    /// Counts commits that asked for masks.
    round: u64,
    /// When the last one did.
    asked: Duration,
    /// How many of its masks have not come back, while a step would wait for them.
    due: usize,
    /// What the last step of decode rows alone took.
    decode_time: Duration,
}

impl Masks {
    pub(super) fn new(workers: Box<dyn Workers>, replies: Sender<Command>) -> Self {
        let (asked, decode_time) = (Duration::ZERO, Duration::ZERO);
        Masks { workers, replies, round: 0, asked, due: 0, decode_time }
    }

    pub(super) fn set_workers(&mut self, workers: Box<dyn Workers>) {
        self.workers = workers;
    }

    /// A step of decode rows alone took so long.
    pub(super) fn decoded(&mut self, time: Duration) {
        self.decode_time = time;
    }

    /// The tokens of a step are about to be committed.
    pub(super) fn begin_round(&mut self, now: Duration) {
        self.round += 1;
        self.asked = now;
        self.due = 0;
    }

    /// Sends a place on by a token.
    pub(super) fn ask(&mut self, id: RequestId, place: Followed, token: TokenId) {
        let (round, asked) = (self.round, self.asked);
        let replies = self.replies.clone();
        self.due += 1;
        self.start(Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| place.take(token)))
                .unwrap_or_else(|_| Err("following it panicked".to_owned()));
            // An engine that is gone has answered everybody.
            let _ = replies.send(Command::Mask(Box::new(MaskReply { id, round, asked, outcome })));
        }));
    }

    /// One has come back.
    pub(super) fn arrived(&mut self, reply: &MaskReply) {
        if reply.round == self.round {
            self.due = self.due.saturating_sub(1);
        }
    }

    /// Whether masks of the last commit are on their way.
    pub(super) fn are_due(&self) -> bool {
        self.due > 0
    }

    /// How long the next step should wait for masks on their way: rows that go on together cost less than rows in steps of
    /// their own. But no mask is worth more than half a step, counted from when it was asked for; and where `others` could go on
    /// meanwhile, no more than they would hardly notice.
    pub(super) fn worth_waiting(&self, now: Duration, others: bool) -> Option<Duration> {
        if !self.are_due() {
            return None;
        }
        let most = self.decode_time / if others { 32 } else { 2 };
        (self.asked + most).checked_sub(now).filter(|rest| !rest.is_zero())
    }

    /// Nobody follows it any more. A place can be large, and freeing it long.
    pub(super) fn discard(&mut self, place: Followed) {
        self.start(Box::new(move || drop(place)));
    }

    fn start(&mut self, work: Work) {
        self.workers.start(work);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::{super::workers::AtOnce, *};
    use crate::sampling::{Constraint, Follower, SharedConstraint, TokenMask};

    #[derive(Debug)]
    struct Anything;

    impl Constraint for Anything {
        fn follow(&self) -> Result<Box<dyn Follower>, String> {
            Ok(Box::new(Anything))
        }
    }

    impl Follower for Anything {
        fn take(&mut self, _: TokenId) -> Result<(), String> {
            Ok(())
        }

        fn allowed(&mut self) -> Result<TokenMask, String> {
            Ok(vec![1].into())
        }
    }

    #[test]
    fn a_step_waits_for_the_masks_of_the_last_commit_and_not_for_long() {
        let ms = Duration::from_millis;
        let (replies, inbox) = channel();
        let mut masks = Masks::new(Box::new(AtOnce), replies);
        masks.decoded(ms(64));
        let ask = |masks: &mut Masks, now| {
            masks.begin_round(now);
            let anything = SharedConstraint(std::sync::Arc::new(Anything));
            let place = Followed::new(&anything).expect("a place");
            masks.ask(RequestId(1), place, TokenId(0));
            let Ok(Command::Mask(reply)) = inbox.recv() else { panic!("a mask") };
            reply
        };
        let first = ask(&mut masks, ms(100));
        assert_eq!(masks.worth_waiting(ms(110), false), Some(ms(22)));
        assert_eq!(masks.worth_waiting(ms(132), false), None);
        assert_eq!(masks.worth_waiting(ms(101), true), Some(ms(1)));
        assert_eq!(masks.worth_waiting(ms(102), true), None);
        let second = ask(&mut masks, ms(200));
        masks.arrived(&first);
        assert_eq!(masks.worth_waiting(ms(200), false), Some(ms(32)), "an older mask is another");
        masks.arrived(&second);
        assert_eq!(masks.worth_waiting(ms(200), false), None);
    }
}
