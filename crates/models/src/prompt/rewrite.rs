//! What is changed in a template before it is compiled.

use minijinja::{
    Error, ErrorKind, State,
    value::{Value, ValueKind},
};

/// The filter around everything that a template stores in a namespace: [`storable`].
pub(crate) const STORABLE: &str = "__storable__";
/// The filter around everything else that a template gives a name: [`charged`].
pub(crate) const CHARGED: &str = "__charged__";

/// The template as it is compiled.
///
/// `{% generation %}` marks the parts that training learns from; here it is a block like `{% with %}`. And
/// `{% set ns.name = value %}` stores `value|__storable__`, `{% set name = value %}` stores `value|__charged__`.
pub(crate) fn rewritten(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut copied = 0;
    let mut tags = Tags { source, at: 0 };
    while let Some((start, end)) = tags.next_tag() {
        let Some(changed) = changed(&source[start..end]) else { continue };
        out.push_str(&source[copied..start]);
        out.push_str(&changed);
        copied = end;
    }
    out + &source[copied..]
}

/// What stands for the inside of a tag; `None`: it stays as it is.
fn changed(inside: &str) -> Option<String> {
    let name = inside.trim();
    for (from, to) in [("generation", "with"), ("endgeneration", "endwith")] {
        if name == from {
            return Some(inside.replacen(from, to, 1));
        }
    }
    let rest =
        name.strip_prefix("set").filter(|rest| rest.starts_with([' ', '\t', '\n', '\r', '(']))?;
    let (target, value) = rest.split_once('=')?;
    let is_target = |c: char| c.is_alphanumeric() || "_.,() \t\r\n".contains(c);
    target.chars().all(is_target).then(|| {
        let lead = &inside[..inside.len() - inside.trim_start().len()];
        let trail = &inside[inside.trim_end().len()..];
        let filter = if target.contains('.') { STORABLE } else { CHARGED };
        format!("{lead}set{target}=({value})|{filter}{trail}")
    })
}

/// The block tags of a template: without those in comments, in strings of expressions, and between `raw` and `endraw`.
struct Tags<'s> {
    source: &'s str,
    at: usize,
}

impl Tags<'_> {
    /// Where the inside of the next tag begins and ends, its whitespace marks left out.
    fn next_tag(&mut self) -> Option<(usize, usize)> {
        loop {
            let rest = &self.source[self.at..];
            let open = rest
                .match_indices('{')
                .map(|(at, _)| at)
                .find(|at| ["{%", "{{", "{#"].iter().any(|mark| rest[*at..].starts_with(mark)))?;
            let start = self.at + open + 2;
            match &rest[open..open + 2] {
                "{#" => self.at = self.behind(start, "#}")?,
                "{{" => self.at = self.close(start, "}}")? + 2,
                _ => {
                    let end = self.close(start, "%}")?;
                    self.at = end + 2;
                    let inside = trimmed(self.source, start, end);
                    if self.source[inside.0..inside.1].trim() == "raw" {
                        self.at = self.behind(self.at, "endraw")?;
                    }
                    return Some(inside);
                }
            }
        }
    }

    fn behind(&self, from: usize, mark: &str) -> Option<usize> {
        self.source[from..].find(mark).map(|at| from + at + mark.len())
    }

    /// Where `mark` stands outside of strings.
    fn close(&self, from: usize, mark: &str) -> Option<usize> {
        let mut quote = None;
        let mut characters = self.source[from..].char_indices();
        while let Some((at, c)) = characters.next() {
            match quote {
                Some(_) if c == '\\' => drop(characters.next()),
                Some(open) if c == open => quote = None,
                Some(_) => {}
                None if c == '"' || c == '\'' => quote = Some(c),
                None if self.source[from + at..].starts_with(mark) => return Some(from + at),
                None => {}
            }
        }
        None
    }
}

/// The range without the `-` or `+` at its ends.
fn trimmed(source: &str, start: usize, end: usize) -> (usize, usize) {
    let inside = &source[start..end];
    let without = inside.strip_prefix(['-', '+']).unwrap_or(inside);
    let start = end - without.len();
    (start, start + without.strip_suffix(['-', '+']).unwrap_or(without).len())
}

/// A value as it is, if a namespace may hold it: it holds no namespace itself. One that held itself could not be
/// printed; and nothing but a namespace can be changed after it was made, so that nothing else comes to hold itself.
pub(crate) fn storable(state: &State, value: Value) -> Result<Value, Error> {
    if holds_namespace(state, &value)? {
        let why = "a namespace cannot be stored in a namespace";
        return Err(Error::new(ErrorKind::InvalidOperation, why));
    }
    Ok(value)
}

/// A value as it is, its size paid for. Joined lists and nests of one value twice grow like powers of two, and the library
/// charges neither for making nor for comparing them; what has a name can be used again, so that here is where they grow.
pub(crate) fn charged(state: &State, value: Value) -> Result<Value, Error> {
    holds_namespace(state, &value)?;
    Ok(value)
}

/// Looks at everything within a value, but not into namespaces, and charges a step for each value.
fn holds_namespace(state: &State, value: &Value) -> Result<bool, Error> {
    let mut found = false;
    let mut waiting = vec![value.clone()];
    while let Some(value) = waiting.pop() {
        let Some(object) = value.as_object() else { continue };
        if object.type_name().ends_with("::Namespace") {
            found = true;
            continue;
        }
        let is_map = value.kind() == ValueKind::Map;
        for item in value.try_iter().into_iter().flatten() {
            state.consume_fuel(1)?;
            if is_map
                && let Ok(inner) = value.get_item(&item)
                && inner.as_object().is_some()
            {
                waiting.push(inner);
            }
            if item.as_object().is_some() {
                waiting.push(item);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_are_plain_blocks() {
        assert_eq!(
            rewritten("a{%- generation -%}b{% endgeneration %}{% if generation %}c{% endif %}"),
            "a{%- with -%}b{% endwith %}{% if generation %}c{% endif %}"
        );
        assert_eq!(rewritten("no {% tag"), "no {% tag");
    }

    #[test]
    fn what_a_namespace_is_to_hold_goes_through_the_filter() {
        let set = |inside: &str| rewritten(&format!("{{%- set {inside} -%}}"));
        assert_eq!(
            set("ns.a = b == 1 or '%}'"),
            "{%- set ns.a =( b == 1 or '%}')|__storable__ -%}"
        );
        assert_eq!(set("a, b = ns.b == 1, 2"), "{%- set a, b =( ns.b == 1, 2)|__charged__ -%}");
        for untouched in ["ns.a", "ns.a | replace(x=1)", "a"] {
            assert_eq!(set(untouched), format!("{{%- set {untouched} -%}}"));
        }
    }

    #[test]
    fn text_comments_expressions_and_raw_blocks_are_left_alone() {
        for source in [
            "{# {% generation %} #}",
            "{{ '{% generation %}' }}{{ \"\\\"{% set n.a = 1 %}\" }}",
            "{% raw %}{% generation %}{% set n.a = 1 %}{% endraw %}",
            "{ % generation % }",
        ] {
            assert_eq!(rewritten(source), source);
        }
    }
}
