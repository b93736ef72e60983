//! A JSON value, checked character by character.

/// Values may be nested so deep; the parsers of clients have limits of this size.
const MAX_DEPTH: usize = 128;

/// Reads one JSON value and says where it ends, or that it cannot become one. Strict, but for halves of surrogate pairs
/// in escapes, which it does not pair.
#[derive(Debug, Default)]
pub(super) struct Json {
    /// What closes the objects and arrays that are open.
    open: Vec<char>,
    expect: Expect,
    /// A number or word that is growing.
    scalar: String,
}

/// What a further character does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// The value goes on.
    More,
    /// It ends with this character.
    Done,
    /// It ended before this character.
    DoneBefore,
    /// It cannot become JSON with this character.
    Invalid,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Value,
    ValueOrClose,
    KeyOrClose,
    Key,
    Colon,
    CommaOrClose,
    Text {
        key: bool,
    },
    Escape {
        key: bool,
    },
    Hex {
        key: bool,
        left: u8,
    },
    Scalar,
}

impl Json {
    /// Takes the next character.
    pub fn push(&mut self, c: char) -> Scan {
        match self.expect {
            Expect::Text { key } => self.in_text(c, key),
            Expect::Escape { key } => self.escaped(c, key),
            Expect::Hex { key, left } if c.is_ascii_hexdigit() => match left {
                1 => self.go_on(Expect::Text { key }),
                _ => self.go_on(Expect::Hex { key, left: left - 1 }),
            },
            Expect::Scalar => self.in_scalar(c),
            Expect::Hex { .. } => Scan::Invalid,
            _ if is_space(c) => Scan::More,
            Expect::ValueOrClose if c == ']' => self.close(c),
            Expect::Value | Expect::ValueOrClose => self.begin(c),
            Expect::KeyOrClose if c == '}' => self.close(c),
            Expect::Key | Expect::KeyOrClose if c == '"' => self.go_on(Expect::Text { key: true }),
            Expect::Colon if c == ':' => self.go_on(Expect::Value),
            Expect::CommaOrClose if c == ',' => match self.open.last() {
                Some('}') => self.go_on(Expect::Key),
                _ => self.go_on(Expect::Value),
            },
            Expect::CommaOrClose => self.close(c),
            Expect::Key | Expect::KeyOrClose | Expect::Colon => Scan::Invalid,
        }
    }

    fn go_on(&mut self, expect: Expect) -> Scan {
        self.expect = expect;
        Scan::More
    }

    fn begin(&mut self, c: char) -> Scan {
        match c {
            '{' | '[' if self.open.len() == MAX_DEPTH => Scan::Invalid,
            '{' => {
                self.open.push('}');
                self.go_on(Expect::KeyOrClose)
            }
            '[' => {
                self.open.push(']');
                self.go_on(Expect::ValueOrClose)
            }
            '"' => self.go_on(Expect::Text { key: false }),
            _ if is_scalar(c) => {
                self.scalar.push(c);
                self.go_on(Expect::Scalar)
            }
            _ => Scan::Invalid,
        }
    }

    fn in_text(&mut self, c: char, key: bool) -> Scan {
        match c {
            '"' if key => self.go_on(Expect::Colon),
            '"' => self.value_ended(),
            '\\' => self.go_on(Expect::Escape { key }),
            c if c < ' ' => Scan::Invalid,
            _ => Scan::More,
        }
    }

    fn escaped(&mut self, c: char, key: bool) -> Scan {
        match c {
            'u' => self.go_on(Expect::Hex { key, left: 4 }),
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => self.go_on(Expect::Text { key }),
            _ => Scan::Invalid,
        }
    }

    fn in_scalar(&mut self, c: char) -> Scan {
        if is_scalar(c) {
            self.scalar.push(c);
            return Scan::More;
        }
        let scalar = std::mem::take(&mut self.scalar);
        if serde_json::from_str::<serde_json::Value>(&scalar).is_err() {
            return Scan::Invalid;
        }
        if self.open.is_empty() {
            return Scan::DoneBefore;
        }
        self.expect = Expect::CommaOrClose;
        self.push(c)
    }

    fn close(&mut self, c: char) -> Scan {
        match self.open.pop() {
            Some(closing) if closing == c => self.value_ended(),
            _ => Scan::Invalid,
        }
    }

    fn value_ended(&mut self) -> Scan {
        if self.open.is_empty() {
            return Scan::Done;
        }
        self.go_on(Expect::CommaOrClose)
    }
}

/// Whether JSON allows `c` between its parts.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_scalar(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of the value at the beginning of `text`; `None`: no JSON.
    fn length(text: &str) -> Option<usize> {
        let mut json = Json::default();
        for (at, c) in text.char_indices() {
            match json.push(c) {
                Scan::More => {}
                Scan::Done => return Some(at + c.len_utf8()),
                Scan::DoneBefore => return Some(at),
                Scan::Invalid => return None,
            }
        }
        panic!("{text} does not end");
    }

    #[test]
    fn finds_the_end() {
        for text in [
            r#"{}"#,
            r#"[]"#,
            r#"{"a":{"b":[1,-2.5e3,true,null,"}]\"\\"]},"c":""}"#,
            r#""\u00e9\ud83d\ude00 \/""#,
            "{ \"a\" :\n[ ] , \"é\" : 0 }",
            " [[[{}]]]",
        ] {
            assert_eq!(length(&format!("{text} tail")), Some(text.len()), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        }
        assert_eq!(length("12,"), Some(2));
        assert_eq!(length("null "), Some(4));
    }

    #[test]
    fn refuses_what_is_no_json() {
        for text in [
            "}",
            "{a",
            "{'a",
            "{,",
            "{\"a\",",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "[1}",
            "[1 2",
            "\"\n",
            "\"\\x",
            "\"\\u00g",
            "01,",
            "nul,",
            "+1,",
            "1.,",
            "{\"a\":tru}",
            "--1,",
            "True,",
            "<",
        ] {
            assert_eq!(length(text), None, "{text}");
        }
        assert_eq!(length(&"[".repeat(MAX_DEPTH + 1)), None);
    }
}
