//! Stop strings in streamed text.

/// Finds the first of several strings in text that arrives in pieces. Text comes out as soon as it cannot be the
/// beginning of a match; only what may still become one is held back. Matches may overlap pieces in any way.
///
/// ```
/// use runtime::stop::{StopStrings, Streamed};
///
/// let mut stop = StopStrings::new(&["\n\n".to_owned()]);
/// assert_eq!(stop.push("one\n"), Streamed::Text("one".into()));
/// assert_eq!(stop.push("two\n"), Streamed::Text("\ntwo".into()));
/// assert_eq!(stop.push("\nthree"), Streamed::Stopped { text: "".into(), stop: 0 });
/// ```
#[derive(Clone, Debug)]
pub struct StopStrings {
    stops: Vec<String>,
    /// The end of the text so far, which may be the beginning of a match.
    held: String,
}

/// What a piece of text gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Streamed {
    /// Text that is part of no match; maybe empty.
    Text(String),
    /// A stop string is complete. Nothing more is to be pushed.
    Stopped {
        /// Text before the match.
        text: String,
        /// Which string it was.
        stop: usize,
    },
}

impl StopStrings {
    /// Looks for `stops`; empty strings never match.
    pub fn new(stops: &[String]) -> Self {
        StopStrings { stops: stops.to_vec(), held: String::new() }
    }

    /// The next piece of text. Of several matches the one that ends first counts; of those that end together, the one
    /// that begins first.
    pub fn push(&mut self, piece: &str) -> Streamed {
        // What was held has been searched: a match ends in the new piece.
        let searched = self.held.len();
        self.held.push_str(piece);
        if let Some((start, stop)) = self.find(searched) {
            self.held.truncate(start);
            return Streamed::Stopped { text: std::mem::take(&mut self.held), stop };
        }
        Streamed::Text(self.release())
    }

    /// The next piece of a text in which no match may end yet; one that begins in it still counts.
    pub fn pass(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.release()
    }

    /// The text has ended: what was held back is no match.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Lets go of what cannot be the beginning of a match.
    fn release(&mut self) -> String {
        let keep = self.held.split_off(self.safe_len());
        std::mem::replace(&mut self.held, keep)
    }

    /// Start and number of the match that ends first, behind `searched`.
    fn find(&self, searched: usize) -> Option<(usize, usize)> {
        let matches = self.stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty());
        let matches = matches.filter_map(|(number, stop)| {
            let from = self.held.ceil_char_boundary((searched + 1).saturating_sub(stop.len()));
            let start = from + self.held[from..].find(stop.as_str())?;
            Some((start + stop.len(), start, number))
        });
        matches.min().map(|(_, start, number)| (start, number))
    }

    /// Bytes at the front that no match can touch any more.
    fn safe_len(&self) -> usize {
        let mut boundaries = self.held.char_indices().map(|(at, _)| at);
        let begins_match = |at: &usize| {
            let rest = &self.held[*at..];
            // A whole match is none any more: it lies where none may end.
            self.stops.iter().any(|stop| stop.len() > rest.len() && stop.starts_with(rest))
        };
        boundaries.find(begins_match).unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Passes the first pieces by and pushes the others; gives all text that came out, and the stop that was found.
    fn stream(stops: &[String], passed: &[&str], pushed: &[&str]) -> (String, Option<usize>) {
        let mut matcher = StopStrings::new(stops);
        let mut all: String = passed.iter().map(|piece| matcher.pass(piece)).collect();
        for piece in pushed {
            match matcher.push(piece) {
                Streamed::Text(text) => all.push_str(&text),
                Streamed::Stopped { text, stop } => return (all + &text, Some(stop)),
            }
        }
        (all + &matcher.finish(), None)
    }

    /// The naive matcher: looks at every prefix of the whole text that is longer than `passed` bytes.
    fn whole(stops: &[String], text: &str, passed: usize) -> (String, Option<usize>) {
        let ends = text.char_indices().chain([(text.len(), ' ')]).map(|(at, _)| at);
        for end in ends.filter(|end| *end > passed) {
            let ends = |stop: &&String| !stop.is_empty() && text[..end].ends_with(stop.as_str());
            if let Some(found) = stops.iter().filter(ends).max_by_key(|stop| stop.len()) {
                let number = stops.iter().position(|stop| stop == found);
                return (text[..end - found.len()].to_owned(), number);
            }
        }
        (text.to_owned(), None)
    }

    #[test]
    fn holds_back_only_what_may_become_a_match() {
        let mut matcher = StopStrings::new(&["STOP".to_owned()]);
        assert_eq!(matcher.push("a ST"), Streamed::Text("a ".into()));
        assert_eq!(matcher.push("x"), Streamed::Text("STx".into()));
        assert_eq!(matcher.push("SSTO"), Streamed::Text("S".into()));
        assert_eq!(matcher.push("P!"), Streamed::Stopped { text: String::new(), stop: 0 });
        assert_eq!(StopStrings::new(&[String::new()]).push("ab"), Streamed::Text("ab".into()));
    }

    #[test]
    fn a_match_counts_where_it_ends() {
        let mut matcher = StopStrings::new(&["ab".to_owned()]);
        assert_eq!(matcher.pass("ab, a"), "ab, ");
        assert_eq!(matcher.push("b!"), Streamed::Stopped { text: String::new(), stop: 0 });
        let mut matcher = StopStrings::new(&["ab".to_owned()]);
        assert_eq!(matcher.pass("ab"), "ab");
        assert_eq!(matcher.push("ba"), Streamed::Text("b".into()));
    }

    proptest! {
        #[test]
        fn any_split_gives_what_the_whole_gives(
            text in "[abé]{0,40}",
            stops in prop::collection::vec("[abé]{0,4}", 0..4),
            cuts in prop::collection::vec(0usize..80, 0..12),
            passed in 0usize..6,
        ) {
            let mut cuts: Vec<usize> =
                cuts.into_iter().map(|cut| text.floor_char_boundary(cut.min(text.len()))).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            let (passed, pushed) = pieces.split_at(passed.min(pieces.len()));
            let bytes = passed.iter().map(|piece| piece.len()).sum();
            prop_assert_eq!(stream(&stops, passed, pushed), whole(&stops, &text, bytes));
        }
    }
}
