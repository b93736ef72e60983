//! How much to guess: as much as has been accepted lately, and nothing where it does not pay.

/// What guessing is held to. Lengths in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaceLimits {
    /// Most guesses at a time.
    pub most: usize,
    /// Guesses that a verification must have accepted, on average, to be worth its rows and the step that it does not
    /// run ahead.
    pub break_even: f32,
    /// The same where others run ahead: they take part in two steps while a verification takes part in one, which its rows
    /// make dearer for all.
    pub break_even_in_company: f32,
    /// How far a sequence goes on without guesses when they did not pay.
    pub pause: usize,
    /// The same after they have not paid time and again; each pause is twice the one before.
    pub longest_pause: usize,
}

impl Default for PaceLimits {
    fn default() -> Self {
        PaceLimits {
            most: 7,
            break_even: 0.4,
            break_even_in_company: 1.0,
            pause: 16,
            longest_pause: 256,
        }
    }
}

/// One sequence's pace. Plain data: what comes next is a function of what it is and of what has happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Guesses to make next time.
    guesses: usize,
    /// Moving average of the guesses that a verification had accepted.
    accepted: f32,
    /// Nothing is guessed before the sequence is so long.
    resumes: usize,
    /// The next pause.
    pause: usize,
}

/// Weight of the newest verification.
const WEIGHT: f32 = 0.25;

impl Pace {
    /// Before anything is known: all that is allowed, and a few failures are forgiven.
    pub fn new(limits: &PaceLimits) -> Self {
        let accepted = limits.break_even_in_company.max(limits.break_even) * 1.5;
        Pace { guesses: limits.most, accepted, resumes: 0, pause: limits.pause }
    }

    /// Guesses to make for a sequence of `length` tokens.
    pub fn guesses(&self, length: usize) -> usize {
        if length < self.resumes { 0 } else { self.guesses }
    }

    /// Of `guessed` guesses so many were `accepted`; the sequence has `length` tokens now. `company`: others run ahead.
    #[must_use]
    pub fn verified(
        self,
        limits: &PaceLimits,
        guessed: usize,
        accepted: usize,
        length: usize,
        company: bool,
    ) -> Pace {
        let guesses = if accepted >= guessed {
            (self.guesses * 2).min(limits.most)
        } else {
            (accepted + 1).max(self.guesses / 2).clamp(1, limits.most.max(1))
        };
        let average = self.accepted + WEIGHT * (accepted as f32 - self.accepted);
        let needed = if company { limits.break_even_in_company } else { limits.break_even };
        let pace = Pace { guesses, accepted: average, ..self };
        if average < needed {
            return Pace { accepted: needed, ..pace.paused(limits, length) };
        }
        Pace { pause: if accepted > 0 { limits.pause } else { self.pause }, ..pace }
    }

    /// There was no room for guesses at `length` tokens.
    #[must_use]
    pub fn crowded(self, limits: &PaceLimits, length: usize) -> Pace {
        Pace { resumes: length + limits.pause, ..self }
    }

    fn paused(self, limits: &PaceLimits, length: usize) -> Pace {
        let pause = (self.pause * 2).min(limits.longest_pause);
        Pace { resumes: length + self.pause, pause, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PaceLimits = PaceLimits {
        most: 8,
        break_even: 0.4,
        break_even_in_company: 1.0,
        pause: 10,
        longest_pause: 40,
    };

    #[test]
    fn guesses_follow_what_is_accepted() {
        let pace = Pace::new(&LIMITS);
        assert_eq!(pace.guesses(0), 8);
        let pace = pace.verified(&LIMITS, 8, 1, 100, false);
        assert_eq!(pace.guesses(100), 4);
        let pace = pace.verified(&LIMITS, 4, 2, 103, false);
        assert_eq!(pace.guesses(103), 3);
        let pace = pace.verified(&LIMITS, 3, 3, 107, false);
        assert_eq!(pace.guesses(107), 6);
        assert_eq!(pace.verified(&LIMITS, 6, 6, 114, false).guesses(114), 8);
    }

    #[test]
    fn it_pauses_where_it_does_not_pay_each_time_longer_and_tries_again() {
        let mut pace = Pace::new(&LIMITS);
        let mut length = 0;
        let mut pauses = Vec::new();
        for _ in 0..12 {
            length += 1;
            pace = pace.verified(&LIMITS, pace.guesses(length), 0, length, false);
            if pace.guesses(length) == 0 {
                let resumes = (length..).find(|length| pace.guesses(*length) > 0).unwrap();
                pauses.push(resumes - length);
                length = resumes;
            }
        }
        assert_eq!(pauses[..4], [10, 20, 40, 40]);
        assert_eq!(pace.guesses(length), 1, "one is enough to see");
        let paid = pace.verified(&LIMITS, 1, 1, length + 2, false);
        assert_eq!(paid.pause, 10, "it pays again");
    }

    #[test]
    fn company_raises_what_is_needed() {
        let half = |company| {
            let mut pace = Pace::new(&LIMITS);
            for length in 0..100 {
                pace = pace.verified(&LIMITS, 8, 1 - length % 4 / 3, length, company);
            }
            pace.guesses(100)
        };
        assert!(half(false) > 0, "three in four pay for themselves");
        assert_eq!(half(true), 0);
    }

    #[test]
    fn where_there_is_no_room_it_waits_and_thinks_no_worse_of_itself() {
        let pace = Pace::new(&LIMITS);
        let crowded = pace.crowded(&LIMITS, 50);
        assert_eq!((crowded.guesses(59), crowded.guesses(60)), (0, 8));
        assert_eq!(Pace { resumes: 0, ..crowded }, pace);
    }
}
