//! Field tables: no field of a request is ever ignored.
//!
//! Each request type is a table of [`Field`]s. [`Fields::open`] holds an object against the table: a name that is not
//! there, a value of the wrong type or out of range, and a field that the server does not support with a value that
//! would change the answer are problems, each with its path. `null` is the same as leaving the field out. What passes
//! is then taken out, field by field; [`Fields::close`] complains about whatever nobody took.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::json::kind_of;

/// One field of a request.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it may hold.
    pub rule: Rule,
}

/// What a field may hold.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// A number in the closed range.
    Float(f64, f64),
    /// A number in the range, the lower end left out.
    FloatAbove(f64, f64),
    /// A whole number in the closed range.
    Integer(i64, i64),
    /// `true` or `false`.
    Boolean,
    /// A string.
    Text,
    /// Any type; whoever takes it checks it.
    Shaped,
    /// Not supported: only these values, written in JSON, which ask for what happens anyway.
    Only(&'static [&'static str]),
}

/// A field that somebody takes.
pub const fn field(name: &'static str, rule: Rule) -> Field {
    Field { name, rule }
}

/// A field that is known and not supported.
pub const fn only(name: &'static str, neutral: &'static [&'static str]) -> Field {
    Field { name, rule: Rule::Only(neutral) }
}

/// What is wrong with a request: all of it, or as much as anybody would read.
#[derive(Debug, Default)]
pub struct Problems {
    listed: Vec<Problem>,
    left_out: usize,
}

/// Most problems that are listed; the others are counted.
const MAX_PROBLEMS: usize = 32;
/// Longest path and longest message of one problem, in characters: whatever a request holds, its echo stays short.
const MAX_PROBLEM_CHARS: usize = 400;

/// One thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field: `messages[2].role`.
    pub param: String,
    /// What was seen and what was wanted; begins with the path.
    pub message: String,
}

impl Problems {
    /// Adds a problem; `what` goes on from the path: `must be a string`.
    pub fn add(&mut self, param: impl Into<String>, what: impl AsRef<str>) {
        if self.listed.len() == MAX_PROBLEMS {
            self.left_out += 1;
            return;
        }
        let param = cut(param.into(), MAX_PROBLEM_CHARS);
        let message = cut(format!("{param} {}", what.as_ref()), MAX_PROBLEM_CHARS);
        self.listed.push(Problem { param, message });
    }

    /// Adds "must be ..., not ...", with the type of what was seen.
    pub fn wrong_type(&mut self, param: impl Into<String>, wanted: &str, seen: &Value) {
        self.add(param, format!("must be {wanted}, not {}", kind_of(seen)));
    }

    /// Adds "is missing", unless that field has a problem already.
    pub fn missing(&mut self, param: impl Into<String>) {
        let param = param.into();
        if !self.listed.iter().any(|problem| problem.param.starts_with(&param)) {
            self.add(param, "is missing");
        }
    }

    /// `Err` with all of them if there are any.
    pub fn into_result(mut self) -> Result<(), Vec<Problem>> {
        if self.left_out > 0
            && let Some(last) = self.listed.last_mut()
        {
            last.message += &format!(" (and {} more problems)", self.left_out);
        }
        if self.listed.is_empty() { Ok(()) } else { Err(self.listed) }
    }
}

/// An object that has been held against a table, to take values from.
#[derive(Debug)]
pub struct Fields {
    path: String,
    values: Map<String, Value>,
}

impl Fields {
    /// Holds `values` against the tables. `path` is where the object lies in the request, empty for the request itself.
    /// Fields with problems are reported and left out.
    pub fn open(
        tables: &[&[Field]],
        path: impl Into<String>,
        values: Map<String, Value>,
        problems: &mut Problems,
    ) -> Fields {
        let mut fields = Fields { path: path.into(), values: Map::new() };
        for (name, value) in values {
            let Some(field) = tables.iter().copied().flatten().find(|field| field.name == name)
            else {
                problems.add(fields.at(&spelled(&name)), "is not a field of this request");
                continue;
            };
            if value.is_null() {
                continue;
            }
            match complaint(field.rule, &value) {
                Some(what) => problems.add(fields.at(&name), what),
                None if matches!(field.rule, Rule::Only(_)) => {}
                None => {
                    fields.values.insert(name, value);
                }
            }
        }
        fields
    }

    /// The path of one of the object's fields.
    pub fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes a field of [`Rule::Float`] or [`Rule::FloatAbove`].
    pub fn float(&mut self, name: &str) -> Option<f32> {
        self.values.remove(name)?.as_f64().map(|value| value as f32)
    }

    /// Takes a field of [`Rule::Integer`], whose range must lie within `T`.
    pub fn integer<T: TryFrom<i64>>(&mut self, name: &str) -> Option<T> {
        whole(&self.values.remove(name)?).and_then(|value| T::try_from(value).ok())
    }

    /// Takes a field of [`Rule::Boolean`].
    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        self.values.remove(name)?.as_bool()
    }

    /// Takes a field of [`Rule::Text`].
    pub fn text(&mut self, name: &str) -> Option<String> {
        match self.values.remove(name)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Takes a field of [`Rule::Shaped`].
    pub fn value(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// Takes an object.
    pub fn object(&mut self, name: &str, problems: &mut Problems) -> Option<Map<String, Value>> {
        match self.values.remove(name)? {
            Value::Object(map) => Some(map),
            other => {
                problems.wrong_type(self.at(name), "an object", &other);
                None
            }
        }
    }

    /// Takes an array.
    pub fn array(&mut self, name: &str, problems: &mut Problems) -> Option<Vec<Value>> {
        match self.values.remove(name)? {
            Value::Array(items) => Some(items),
            other => {
                problems.wrong_type(self.at(name), "an array", &other);
                None
            }
        }
    }

    /// Takes an array of token ids.
    pub fn token_ids(&mut self, name: &str, problems: &mut Problems) -> Option<Vec<u32>> {
        let items = self.array(name, problems)?;
        token_ids(&self.at(name), items, problems)
    }

    /// Ends the reading. Whatever was not taken is reported: a gap between table and reader must not pass in silence.
    pub fn close(self, problems: &mut Problems) {
        for name in self.values.keys() {
            problems.add(self.at(name), "is not honoured by this route");
        }
    }
}

/// Reads token ids; reports the first that is none.
pub fn token_ids(path: &str, items: Vec<Value>, problems: &mut Problems) -> Option<Vec<u32>> {
    let mut ids = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match whole(item).and_then(|id| u32::try_from(id).ok()) {
            Some(id) => ids.push(id),
            None => {
                problems.add(
                    format!("{path}[{index}]"),
                    format!("must be a token id, not {}", shown(item)),
                );
                return None;
            }
        }
    }
    Some(ids)
}

/// Longest key that a message repeats whole.
const MAX_KEY_CHARS: usize = 64;

/// The name of a field that nobody knows: itself if it is a plain word, else in quotes.
fn spelled(name: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_word = (1..=MAX_KEY_CHARS).contains(&name.len()) && name.chars().all(plain);
    if is_word { Cow::Borrowed(name) } else { Cow::Owned(quoted(name)) }
}

/// A text with at most that many characters; what is missing shows as an ellipsis.
pub(crate) fn cut(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A key or a name of the request in quotes, cut where it is long.
pub(crate) fn quoted(key: &str) -> String {
    let mut begin: String = key.chars().take(MAX_KEY_CHARS).collect();
    if begin.len() < key.len() {
        begin.push('…');
    }
    format!("{begin:?}")
}

/// What a value breaks of a rule, to be put after the field's name.
fn complaint(rule: Rule, value: &Value) -> Option<String> {
    let number = value.as_f64();
    let fault = match rule {
        Rule::Float(min, max) => match number {
            Some(x) if (min..=max).contains(&x) => return None,
            Some(_) => format!("must be from {min} to {max}"),
            None => "must be a number".into(),
        },
        Rule::FloatAbove(min, max) => match number {
            Some(x) if x > min && x <= max => return None,
            Some(_) => format!("must be above {min} and at most {max}"),
            None => "must be a number".into(),
        },
        Rule::Integer(min, max) => match whole(value) {
            Some(x) if (min..=max).contains(&x) => return None,
            _ if number.is_some() => format!("must be a whole number from {min} to {max}"),
            _ => "must be a whole number".into(),
        },
        Rule::Boolean if value.is_boolean() => return None,
        Rule::Boolean => "must be true or false".into(),
        Rule::Text if value.is_string() => return None,
        Rule::Text => "must be a string".into(),
        Rule::Shaped => return None,
        Rule::Only(neutral) if neutral.iter().any(|text| same(text, value)) => return None,
        Rule::Only([]) => return Some("is not supported; leave it out".into()),
        Rule::Only(neutral) => {
            format!("is supported only as {}", neutral.join(" or "))
        }
    };
    Some(format!("{fault}, not {}", shown(value)))
}

/// Whether a value is what the JSON text says; `1` and `1.0` are the same.
fn same(text: &str, value: &Value) -> bool {
    let neutral: Value = serde_json::from_str(text).expect("field tables hold valid JSON");
    neutral == *value || (neutral.is_number() && neutral.as_f64() == value.as_f64())
}

/// A whole number, also when written `5.0`.
pub(super) fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        let exact = number.fract() == 0.0 && number.abs() < 9e15;
        exact.then_some(number as i64)
    })
}

/// A value for a message: itself if short, else its type.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
        Value::String(text) if text.chars().count() > 40 => kind_of(value).to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &[Field] = &[
        field("warmth", Rule::Float(0.0, 2.0)),
        field("share", Rule::FloatAbove(0.0, 1.0)),
        field("count", Rule::Integer(1, 128)),
        field("flow", Rule::Boolean),
        field("name", Rule::Text),
        field("shape", Rule::Shaped),
        only("beams", &["1", "false"]),
        only("audio", &[]),
    ];

    fn problems_of(value: Value) -> Vec<String> {
        let Value::Object(map) = value else { panic!("tests give objects") };
        let mut problems = Problems::default();
        let mut fields = Fields::open(&[TABLE], "", map, &mut problems);
        for Field { name, .. } in TABLE {
            fields.value(name);
        }
        fields.close(&mut problems);
        problems.into_result().err().unwrap_or_default().into_iter().map(|p| p.message).collect()
    }

    #[test]
    fn good_values_and_nulls_pass() {
        let good = json!({"warmth": 1, "share": 1.0, "count": 5.0, "flow": true, "name": "x", "shape": [], "beams": 1.0, "audio": null});
        assert_eq!(problems_of(good), [""; 0]);
        for Field { name, .. } in TABLE {
            assert_eq!(problems_of(json!({*name: null})), [""; 0]);
        }
    }

    #[test]
    fn each_mistake_is_named_with_value_and_range() {
        for (body, want) in [
            (json!({"warmth": 2.5}), "warmth must be from 0 to 2, not 2.5"),
            (json!({"warmth": "hot"}), "warmth must be a number, not \"hot\""),
            (json!({"share": 0}), "share must be above 0 and at most 1, not 0"),
            (json!({"count": 0}), "count must be a whole number from 1 to 128, not 0"),
            (json!({"count": 1.5}), "count must be a whole number from 1 to 128, not 1.5"),
            (
                json!({"count": u64::MAX}),
                "count must be a whole number from 1 to 128, not 18446744073709551615",
            ),
            (json!({"flow": 1}), "flow must be true or false, not 1"),
            (json!({"name": {}}), "name must be a string, not an object"),
            (json!({"beams": 4}), "beams is supported only as 1 or false, not 4"),
            (json!({"audio": {}}), "audio is not supported; leave it out"),
            (json!({"warmht": 1}), "warmht is not a field of this request"),
        ] {
            assert_eq!(problems_of(body), [want]);
        }
        assert_eq!(problems_of(json!({"warmth": 3, "count": 0, "x": 1})).len(), 3);
    }

    #[test]
    fn many_problems_and_strange_names_make_no_long_message() {
        let many: Map<String, Value> = (0..1000).map(|i| (format!("x{i}"), json!(1))).collect();
        let listed = problems_of(Value::Object(many));
        assert_eq!(listed.len(), MAX_PROBLEMS);
        assert!(listed[31].ends_with("x31 is not a field of this request (and 968 more problems)"));
        assert_eq!(problems_of(json!({"": 1})), ["\"\" is not a field of this request"]);
        assert_eq!(problems_of(json!({"a\n": 1})), ["\"a\\n\" is not a field of this request"]);
        assert!(problems_of(json!({"x".repeat(5000): 1}))[0].len() < 120);
        let mut problems = Problems::default();
        problems.add("é".repeat(5000), "x".repeat(5000));
        let found = problems.into_result().unwrap_err();
        assert_eq!(found[0].param.chars().count(), MAX_PROBLEM_CHARS + 1);
        assert_eq!(found[0].message.chars().count(), MAX_PROBLEM_CHARS + 1);
    }

    #[test]
    fn what_nobody_takes_is_a_problem() {
        let mut problems = Problems::default();
        let map = json!({"name": "x"}).as_object().unwrap().clone();
        Fields::open(&[TABLE], "messages[0]", map, &mut problems).close(&mut problems);
        let found = problems.into_result().unwrap_err();
        assert_eq!(found[0].param, "messages[0].name");
    }
}
