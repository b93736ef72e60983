//! The world in which chat templates run: Jinja as `transformers` sets it up.

use jiff::Zoned;
use minijinja::{
    Environment, Error, ErrorKind, State,
    syntax::SyntaxConfig,
    value::{Value, ValueKind, from_args},
};
use minijinja_contrib::pycompat;

use super::{
    json,
    rewrite::{CHARGED, STORABLE, charged, storable},
};

/// An environment with the filters, functions and methods that templates expect.
pub(crate) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the default ones"));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", json::tojson);
    environment.add_filter(STORABLE, storable);
    environment.add_filter(CHARGED, charged);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    // In Python a string and a mapping are sequences too: they have a length and items.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
    });
    environment.add_test("iterable", |value: &Value| {
        value.as_str().is_some() || value.is_undefined() || value.try_iter().is_ok()
    });
    environment
}

/// The variable that holds what `strftime_now` calls now.
pub(crate) const NOW: &str = "__now__";

/// The message of a template's `raise_exception`, carried as the source of the engine's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Raised(pub String);

fn raise_exception(message: Value) -> Result<Value, Error> {
    // A client reads it: as much as one can bear.
    const LONGEST: usize = 4096;
    let mut message = message.to_string();
    message.truncate(message.floor_char_boundary(LONGEST));
    let raised = Raised(message);
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(raised))
}

fn strftime_now(state: &State, format: &str) -> Result<String, Error> {
    let now = match state.lookup(NOW).as_ref().and_then(Value::as_str).map(str::parse::<Zoned>) {
        Some(Ok(now)) => now,
        _ => Zoned::now(),
    };
    jiff::fmt::strtime::format(format, &now).map_err(|error| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now({format:?}): {error}"))
    })
}

/// Python's methods: the library's, and a few more.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) if name == "format" => {
            check_widths(text)?;
            pycompat::unknown_method_callback(state, value, name, args)
        }
        Some(text) => match string_method(text, name, args) {
            Err(error) if error.kind() == ErrorKind::UnknownMethod => {
                pycompat::unknown_method_callback(state, value, name, args)
            }
            result => result,
        },
        None => pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// Widths and precisions in the fields of a format text. The library pads to any width, whatever memory that takes.
fn check_widths(format: &str) -> Result<(), Error> {
    const WIDEST: usize = 4096;
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidOperation, what));
    let (mut depth, mut number) = (0_usize, 0_usize);
    // An escaped {{ is no field; to read what follows it as one is only to check too much.
    for c in format.replace("{{", "").chars() {
        number = match (c, c.to_digit(10)) {
            (_, Some(digit)) if depth > 0 => {
                number.saturating_mul(10).saturating_add(digit as usize)
            }
            _ => 0,
        };
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 1 {
            return refuse("str.format: a field within a field is not supported".to_owned());
        }
        if number > WIDEST {
            return refuse(format!("str.format: a width above {WIDEST} is not supported"));
        }
    }
    Ok(())
}

fn string_method(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (head, tail) = text.split_once(separator).unwrap_or((text, ""));
            let found = text.contains(separator);
            Ok(strings([head, if found { separator } else { "" }, tail]))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let found = text.contains(separator);
            let (head, tail) = text.rsplit_once(separator).unwrap_or(("", text));
            Ok(strings([head, if found { separator } else { "" }, tail]))
        }
        "rsplit" => {
            let (separator, most): (&str, Option<i64>) = from_args(args)?;
            if separator.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            let most = most
                .and_then(|most| usize::try_from(most).ok())
                .map_or(usize::MAX, |n| n.saturating_add(1));
            let mut parts: Vec<&str> = text.rsplitn(most, separator).collect();
            parts.reverse();
            Ok(strings(parts))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn strings<'a>(parts: impl IntoIterator<Item = &'a str>) -> Value {
    parts.into_iter().map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_print_as_in_python() {
        for (source, text) in [
            (
                "{{ true }} {{ none }} {{ 1.0 }} {{ [1, 'a', none] }} {{ {'a': true} }}",
                "True None 1.0 [1, 'a', None] {'a': True}",
            ),
            ("{{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }}", "['a', 'b,c'] ['a', 'b']"),
            ("{{ 'xaxbx'.strip('x') }} {{ 'a.b.c'.rsplit('.', 1) }}", "axb ['a.b', 'c']"),
            ("{{ 'prefix-x'.removeprefix('prefix-') }}", "x"),
            (
                "{{ 'abc' is sequence }} {{ {} is mapping }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }}",
                "True True True True False",
            ),
            ("{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ 2 ** 3 }} {{ 7 / 2 }}", "3 -4 1 8 3.5"),
            (
                "{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
                "13",
            ),
            ("{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}", "2"),
            ("{{ undefined_name }}|{{ undefined_name is defined }}", "|False"),
            ("{{ [3, 1, 2][::-1] }} {{ 'hello'[1:3] }} {{ [1, 2][-1] }}", "[2, 1, 3] el 2"),
            ("{{ {'b': 1, 'a': 2}.items() | list }}", "[('b', 1), ('a', 2)]"),
            ("{{ '<b>' | string }} {{ 'a' ~ 1 ~ none }}", "<b> a1None"),
            ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
            ("{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}", "1213"),
            ("{{ 'yes' if none is none else 'no' }} {{ 'x' if false }}", "yes "),
        ] {
            assert_eq!(environment().render_str(source, ()).unwrap(), text, "{source}");
        }
    }
}
