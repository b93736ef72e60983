//! `tojson` as chat templates know it: Python's `json.dumps` with `ensure_ascii=False`.

use minijinja::{
    Error, ErrorKind, State,
    value::{Kwargs, Value, ValueKind},
};

/// How deep values may nest.
const DEPTH_LIMIT: usize = 200;

/// The arguments of `json.dumps` that templates may give.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// The filter `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(crate) fn tojson(state: &State, value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let style = Style::new(&kwargs)?;
    kwargs.assert_all_used()?;
    let mut text = String::new();
    style.write(&mut text, value, 0, &|bytes| state.consume_fuel(bytes as u64 / 16))?;
    Ok(Value::from_safe_string(text))
}

impl Style {
    fn new(kwargs: &Kwargs) -> Result<Self, Error> {
        let indent = match kwargs.get::<Option<Value>>("indent")? {
            None => None,
            Some(value) if value.is_none() => None,
            Some(value) => Some(match value.as_str() {
                Some(text) => text.to_owned(),
                None => " ".repeat(indent_width(&value)?),
            }),
        };
        let separators: Option<Value> = kwargs.get("separators")?;
        let (item, key) = match separators.filter(|value| !value.is_none()) {
            Some(pair) => {
                (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string())
            }
            None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
            None => (", ".to_owned(), ": ".to_owned()),
        };
        Ok(Style {
            ensure_ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
            sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
            indent,
            item_separator: item,
            key_separator: key,
        })
    }

    fn write(
        &self,
        out: &mut String,
        value: &Value,
        depth: usize,
        charge: &dyn Fn(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if depth > DEPTH_LIMIT {
            return Err(invalid(format!("tojson: values nest more than {DEPTH_LIMIT} deep")));
        }
        let before = out.len();
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.string(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.checked().collect::<Result<_, _>>()?;
                self.list(out, '[', ']', depth, items.len(), &mut |out, index| {
                    self.write(out, &items[index], depth + 1, charge)
                })?;
            }
            ValueKind::Map => {
                let entries = self.entries(value)?;
                self.list(out, '{', '}', depth, entries.len(), &mut |out, index| {
                    let (key, value) = &entries[index];
                    self.string(out, key);
                    out.push_str(&self.key_separator);
                    self.write(out, value, depth + 1, charge)
                })?;
            }
            other => return Err(invalid(format!("tojson: {other} is not JSON serializable"))),
        }
        charge(out.len() - before)
    }

    /// A bracketed list, `write_item` for each of its items.
    fn list(
        &self,
        out: &mut String,
        open: char,
        close: char,
        depth: usize,
        len: usize,
        write_item: &mut dyn FnMut(&mut String, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let new_line = |out: &mut String, depth: usize| {
            if let Some(indent) = &self.indent {
                out.push('\n');
                (0..depth).for_each(|_| out.push_str(indent));
            }
        };
        out.push(open);
        for index in 0..len {
            if index > 0 {
                out.push_str(&self.item_separator);
            }
            new_line(out, depth + 1);
            write_item(out, index)?;
        }
        if len > 0 {
            new_line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn entries(&self, map: &Value) -> Result<Vec<(String, Value)>, Error> {
        let mut entries = Vec::new();
        for key in map.try_iter()?.checked() {
            let key = key?;
            let text = match key.kind() {
                ValueKind::None => "null".to_owned(),
                ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
                ValueKind::Number => number(&key),
                _ => key.to_string(),
            };
            entries.push((text, map.get_item(&key)?));
        }
        if self.sort_keys {
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Ok(entries)
    }

    fn string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\0'..' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                // The last two planes hold the sentinels, which must come through as they are.
                '\u{7f}'..'\u{F0000}' if self.ensure_ascii && !c.is_ascii() => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => out.push(c),
            }
        }
        out.push('"');
    }
}

fn indent_width(value: &Value) -> Result<usize, Error> {
    let width = value.as_i64().ok_or_else(|| invalid("tojson: indent is no integer".into()))?;
    usize::try_from(width.max(0))
        .ok()
        .filter(|width| *width <= 64)
        .ok_or_else(|| invalid(format!("tojson: indent is {width}, the limit is 64")))
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map_or_else(|_| value.to_string(), python_float)
}

/// A float as Python's `repr` writes it.
pub(crate) fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn invalid(detail: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Serde;

    fn dumps(arguments: &str, value: serde_json::Value) -> String {
        let mut environment = minijinja::Environment::new();
        environment.add_filter("tojson", tojson);
        let source = format!("{{{{ value | tojson({arguments}) }}}}");
        environment.render_str(&source, minijinja::context! { value => Serde(value) }).unwrap()
    }

    // The expected strings are Python's.
    #[test]
    fn equals_pythons_json_dumps() {
        let value = serde_json::json!({"b": [1, 2.5, 1e20, true, null], "a": {"é\"<&>'": "\u{1f}\n😀\u{7f}"}, "e": [], "o": {}});
        assert_eq!(
            dumps("", value.clone()),
            "{\"b\": [1, 2.5, 1e+20, true, null], \"a\": {\"é\\\"<&>'\": \"\\u001f\\n😀\u{7f}\"}, \"e\": [], \"o\": {}}"
        );
        assert_eq!(
            dumps("indent=2", serde_json::json!({"a": [1, {"b": 2}], "e": []})),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"e\": []\n}"
        );
        assert_eq!(
            dumps(
                "separators=(',', ':'), sort_keys=true",
                serde_json::json!({"b": 1, "a": [1, 2]})
            ),
            "{\"a\":[1,2],\"b\":1}"
        );
        assert_eq!(
            dumps("ensure_ascii=true", serde_json::json!("é😀")),
            "\"\\u00e9\\ud83d\\ude00\""
        );
    }

    #[test]
    fn floats_are_pythons() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (123456789012345.0, "123456789012345.0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (-2.5e-7, "-2.5e-07"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }
}
