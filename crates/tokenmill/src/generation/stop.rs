//! Stop strings, found in streamed text.

use std::sync::Arc;

/// Finds the first stop string to be completed in a text that comes in pieces. The outcome does not depend on where the
/// pieces are cut: text is looked at character by character, and what may be the beginning of a stop string is held back.
#[derive(Clone, Debug)]
pub(super) struct StopStrings {
    stops: Arc<[String]>,
    /// Text that was taken in and not given out.
    held: String,
}

/// What a piece of text gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Text that is certain to belong to the output.
    pub text: String,
    /// The stop string that was completed, as an index into the list. Nothing after it is looked at.
    pub stop: Option<usize>,
}

impl StopStrings {
    pub fn new(stops: Arc<[String]>) -> Self {
        StopStrings { stops, held: String::new() }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &str) -> Scanned {
        if self.stops.is_empty() {
            return Scanned { text: piece.to_owned(), stop: None };
        }
        for character in piece.chars() {
            self.held.push(character);
            if let Some(stop) = self.completed() {
                let end = self.held.len() - self.stops[stop].len();
                self.held.truncate(end);
                return Scanned { text: std::mem::take(&mut self.held), stop: Some(stop) };
            }
        }
        let certain = self.held.len() - self.begun();
        let held = self.held.split_off(certain);
        Scanned { text: std::mem::replace(&mut self.held, held), stop: None }
    }

    /// Lets go of what is held back: no stop string can reach over this point.
    pub fn release(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The stop string that the held text ends with; the longest, so that none of it stays.
    fn completed(&self) -> Option<usize> {
        let ends = |&index: &usize| self.held.ends_with(&self.stops[index]);
        (0..self.stops.len()).filter(ends).max_by_key(|&index| self.stops[index].len())
    }

    /// Bytes at the end of the held text that may be the beginning of a stop string.
    fn begun(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        (1..longest)
            .rev()
            .filter_map(|bytes| self.held.len().checked_sub(bytes))
            .filter(|&start| self.held.is_char_boundary(start))
            .map(|start| &self.held[start..])
            .find(|end| self.stops.iter().any(|stop| stop.starts_with(end)))
            .map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanner(stops: &[&str]) -> StopStrings {
        StopStrings::new(stops.iter().map(|&stop| stop.to_owned()).collect())
    }

    /// Feeds pieces, then ends; gives the text and the stop string.
    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let mut scanner = scanner(stops);
        let mut text = String::new();
        for piece in pieces {
            let scanned = scanner.push(piece);
            text.push_str(&scanned.text);
            if scanned.stop.is_some() {
                return (text, scanned.stop);
            }
        }
        (text + &scanner.release(), None)
    }

    #[test]
    fn what_may_begin_a_stop_is_held_back() {
        let mut scanner = scanner(&["###"]);
        assert_eq!(scanner.push("ab#").text, "ab");
        assert_eq!(scanner.push("#c").text, "##c");
        assert_eq!(scanner.push("##").text, "");
        assert_eq!(scanner.push("#").stop, Some(0));
    }

    #[test]
    fn the_first_to_be_completed_wins_and_the_longest_of_those() {
        assert_eq!(run(&["bc", "abc"], &["xabc"]), ("x".into(), Some(1)));
        assert_eq!(run(&["abcd", "bc"], &["abcd"]), ("a".into(), Some(1)));
    }

    #[test]
    fn every_cut_gives_the_same() {
        let stops = ["日本語", "aab", "ab\n"];
        for text in ["x日本語y", "aaab", "日本", "aaa", "zab\n", "日日本語"] {
            let whole = run(&stops, &[text]);
            let cuts: Vec<usize> = (0..=text.len()).filter(|&i| text.is_char_boundary(i)).collect();
            for &a in &cuts {
                for &b in cuts.iter().filter(|&&b| b >= a) {
                    assert_eq!(run(&stops, &[&text[..a], &text[a..b], &text[b..]]), whole);
                }
            }
        }
    }
}
