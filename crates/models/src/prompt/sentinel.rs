//! Marks on a request's strings that survive the template.
//!
//! A template is a program: it trims, splits, compares and joins. To find the request's characters again in what it wrote,
//! each character that could begin a control token is replaced by a *sentinel*, a private-use character that
//! occurs nowhere in the request nor in the template, and put back afterwards.
//!
//! Two strengths. [`Strength::Every`] replaces every character that begins a control token: no token can then *begin* in a
//! request's string, however the template cuts and joins. [`Strength::Spelled`] replaces only those that do spell one (or
//! are cut off by the end of the string): for templates that look into the text (`'</think>' in content`).

use serde_json::{Map, Value};

use super::control::{ControlSet, Mark, Origin};

/// Private-use planes 15 and 16.
const PRIVATE: std::ops::RangeInclusive<u32> = 0xF0000..=0x10FFFD;
/// Sentinels lie within an aligned window of this many characters.
const WINDOW: u32 = 4096;

/// Which characters are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// All that begin a control token.
    Every,
    /// Those at which a control token is spelled.
    Spelled,
}

/// A choice of sentinels for one request.
pub(crate) struct Sentinels<'a> {
    controls: &'a ControlSet,
    base: u32,
}

impl<'a> Sentinels<'a> {
    /// Chooses sentinels that occur in none of `texts`; `None` when each window is taken.
    pub(crate) fn choose<'t>(
        controls: &'a ControlSet,
        texts: impl Iterator<Item = &'t str>,
    ) -> Option<Self> {
        if controls.initials().len() as u32 * 2 + 1 > WINDOW {
            return None;
        }
        let windows = (PRIVATE.end() - PRIVATE.start()) / WINDOW;
        let mut taken = vec![false; windows as usize + 1];
        for c in texts.flat_map(str::chars).map(u32::from).filter(|c| PRIVATE.contains(c)) {
            taken[((c - PRIVATE.start()) / WINDOW) as usize] = true;
        }
        let free = taken[..windows as usize].iter().position(|taken| !taken)?;
        Some(Sentinels { controls, base: PRIVATE.start() + free as u32 * WINDOW })
    }

    /// A further character of the window, for the caller's own use.
    pub(crate) fn tag(&self) -> char {
        self.char_at(self.controls.initials().len() as u32 * 2)
    }

    /// Whether marking `text` at full strength would change it.
    pub(crate) fn concerns(&self, text: &str) -> bool {
        text.contains(self.controls.initials())
    }

    /// `text` with sentinels.
    pub(crate) fn mark(&self, text: &str, origin: Origin, strength: Strength) -> String {
        if !self.concerns(text) {
            return text.to_owned();
        }
        let spelled = match strength {
            Strength::Every => None,
            Strength::Spelled => Some(self.controls.beginnings(text, origin)),
        };
        text.char_indices()
            .map(|(at, c)| match self.controls.initials().binary_search(&c) {
                Ok(index) if spelled.as_ref().is_none_or(|spelled| spelled.contains(&at)) => {
                    self.char_at(index as u32 * 2 + u32::from(origin == Origin::Model))
                }
                _ => c,
            })
            .collect()
    }

    /// `value` with sentinels in all its strings, keys included.
    pub(crate) fn mark_value(&self, value: &Value, origin: Origin, strength: Strength) -> Value {
        match value {
            Value::String(text) => Value::String(self.mark(text, origin, strength)),
            Value::Array(items) => {
                items.iter().map(|item| self.mark_value(item, origin, strength)).collect()
            }
            Value::Object(map) => Value::Object(self.mark_map(map, origin, strength)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// `map` with sentinels in its keys and values.
    pub(crate) fn mark_map(
        &self,
        map: &Map<String, Value>,
        origin: Origin,
        strength: Strength,
    ) -> Map<String, Value> {
        map.iter()
            .map(|(key, value)| {
                (self.mark(key, origin, strength), self.mark_value(value, origin, strength))
            })
            .collect()
    }

    /// Puts the request's characters back, and says where they stand.
    pub(crate) fn restore(&self, text: &str) -> (String, Vec<Mark>) {
        let mut restored = String::with_capacity(text.len());
        let mut marks = Vec::new();
        for c in text.chars() {
            match self.original(c) {
                Some((original, origin)) => {
                    marks.push(Mark { at: restored.len(), origin });
                    restored.push(original);
                }
                None => restored.push(c),
            }
        }
        (restored, marks)
    }

    fn original(&self, c: char) -> Option<(char, Origin)> {
        let offset = u32::from(c).checked_sub(self.base)?;
        let original = *self.controls.initials().get(offset as usize / 2)?;
        Some((original, if offset % 2 == 1 { Origin::Model } else { Origin::Request }))
    }

    fn char_at(&self, offset: u32) -> char {
        char::from_u32(self.base + offset).expect("the window lies in a private-use plane")
    }
}

/// Calls `visit` with every string of `value`, keys included.
pub(crate) fn visit_strings<'v>(value: &'v Value, visit: &mut dyn FnMut(&'v str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| visit_strings(item, visit)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            visit(key);
            visit_strings(value, visit);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::control::Control;

    fn set() -> ControlSet {
        let control = |id, content: &str| Control { id, content: content.into(), special: true };
        ControlSet::new(vec![control(1, "<|end|>"), control(2, "[INST]")]).unwrap()
    }

    #[test]
    fn marks_survive_and_come_back() {
        let set = set();
        let sentinels = Sentinels::choose(&set, std::iter::empty()).unwrap();
        let text = "a < b <|end|> [x] [INST]";
        for (strength, at) in
            [(Strength::Every, vec![2, 6, 14, 18]), (Strength::Spelled, vec![6, 18])]
        {
            let marked = sentinels.mark(text, Origin::Request, strength);
            assert!(!marked.contains("<|end|>") && !marked.contains("[INST]"));
            let (restored, marks) = sentinels.restore(&marked);
            assert_eq!(restored, text);
            assert_eq!(marks.iter().map(|mark| mark.at).collect::<Vec<_>>(), at);
        }
    }

    #[test]
    fn sentinels_avoid_the_requests_own_private_characters() {
        let set = set();
        let text = "\u{F0000}\u{F1001}<|end|>";
        let sentinels = Sentinels::choose(&set, [text].into_iter()).unwrap();
        let (restored, marks) =
            sentinels.restore(&sentinels.mark(text, Origin::Model, Strength::Every));
        assert_eq!(restored, text);
        assert_eq!(marks, [Mark { at: 8, origin: Origin::Model }]);
    }
}
