//! What the text must be: `response_format`, and the fields that vLLM has for the same.

use serde_json::{Map, Value};
use tokenmill::{Constraint, Error};

use super::fields::{Field, Fields, Problems, Rule, field, only, shown};

/// Fields that constrain the text. At most one of them may ask for something.
pub const STRUCTURED: &[Field] = &[
    field("response_format", Rule::Shaped),
    field("guided_json", Rule::Shaped),
    field("guided_regex", Rule::Text),
    field("guided_choice", Rule::Shaped),
    field("guided_grammar", Rule::Text),
    field("structured_outputs", Rule::Shaped),
    only("guided_decoding_backend", &[]),
    only("guided_whitespace_pattern", &[]),
    only("structural_tag", &[]),
];

const RESPONSE_FORMAT: &[Field] = &[field("type", Rule::Text), field("json_schema", Rule::Shaped)];

const JSON_SCHEMA: &[Field] = &[
    field("name", Rule::Text),
    field("description", Rule::Text),
    field("schema", Rule::Shaped),
    field("strict", Rule::Boolean),
];

const STRUCTURED_OUTPUTS: &[Field] = &[
    field("json", Rule::Shaped),
    field("json_object", Rule::Boolean),
    field("regex", Rule::Text),
    field("choice", Rule::Shaped),
    field("grammar", Rule::Text),
    only("structural_tag", &[]),
    only("whitespace_pattern", &[]),
    only("disable_fallback", &["false", "true"]),
    only("disable_any_whitespace", &["false"]),
    only("disable_additional_properties", &["false"]),
];

/// A constraint and the field that asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Structured {
    /// Path of the field.
    pub field: String,
    /// What it asks for.
    pub constraint: Constraint,
}

impl Structured {
    /// Takes the fields of [`STRUCTURED`]; a second constraint is a problem.
    pub fn take(fields: &mut Fields, problems: &mut Problems) -> Option<Structured> {
        let mut found = Vec::new();
        take_response_format(fields, problems, &mut found);
        take_guided(fields, &GUIDED, problems, &mut found);
        if let Some(map) = fields.object("structured_outputs", problems) {
            let mut inner =
                Fields::open(&[STRUCTURED_OUTPUTS], "structured_outputs", map, problems);
            take_guided(&mut inner, &NEWER, problems, &mut found);
            if inner.boolean("json_object").unwrap_or(false) {
                found.push(at(&inner, "json_object", Constraint::JsonObject));
            }
            inner.close(problems);
        }
        let mut found = found.into_iter();
        let first = found.next()?;
        for second in found {
            let text = format!("is given beside {}; a text has one constraint", first.field);
            problems.add(second.field, text);
        }
        Some(first)
    }

    /// The library's error, with the request's name for the field where it names the constraint.
    pub fn rename(field: Option<&str>, error: Error) -> Error {
        match (field, error) {
            (Some(name), Error::InvalidRequest { field, message }) if field == "constraint" => {
                Error::InvalidRequest { field: name.to_owned(), message }
            }
            (_, error) => error,
        }
    }
}

/// The names of one generation of vLLM's fields.
struct Names {
    json: &'static str,
    regex: &'static str,
    choice: &'static str,
    grammar: &'static str,
}

const GUIDED: Names = Names {
    json: "guided_json",
    regex: "guided_regex",
    choice: "guided_choice",
    grammar: "guided_grammar",
};
const NEWER: Names = Names { json: "json", regex: "regex", choice: "choice", grammar: "grammar" };

fn at(fields: &Fields, name: &str, constraint: Constraint) -> Structured {
    Structured { field: fields.at(name), constraint }
}

fn take_guided(
    fields: &mut Fields,
    names: &Names,
    problems: &mut Problems,
    found: &mut Vec<Structured>,
) {
    if let Some(value) = fields.value(names.json)
        && let Some(schema) = schema(&fields.at(names.json), value, problems)
    {
        found.push(at(fields, names.json, Constraint::JsonSchema(schema)));
    }
    if let Some(pattern) = fields.text(names.regex) {
        found.push(at(fields, names.regex, Constraint::Regex(pattern)));
    }
    if let Some(texts) = take_choice(fields, names.choice, problems) {
        found.push(at(fields, names.choice, Constraint::Choice(texts)));
    }
    if let Some(text) = fields.text(names.grammar) {
        found.push(at(fields, names.grammar, Constraint::Lark(text)));
    }
}

/// A schema, or the text of one.
fn schema(path: &str, value: Value, problems: &mut Problems) -> Option<Value> {
    let value = match value {
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) => {
                problems.add(path, format!("is no JSON: {error}"));
                return None;
            }
        },
        value => value,
    };
    if !value.is_object() {
        problems.wrong_type(path, "a JSON schema: an object", &value);
        return None;
    }
    Some(value)
}

/// Texts to choose from; none are no constraint.
fn take_choice(fields: &mut Fields, name: &str, problems: &mut Problems) -> Option<Vec<String>> {
    let items = fields.array(name, problems)?;
    let path = fields.at(name);
    let mut texts = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        match item {
            Value::String(text) => texts.push(text),
            other => problems.add(
                format!("{path}[{index}]"),
                format!("must be a string, not {}", shown(&other)),
            ),
        }
    }
    (!texts.is_empty()).then_some(texts)
}

fn take_response_format(fields: &mut Fields, problems: &mut Problems, found: &mut Vec<Structured>) {
    let Some(map) = fields.object("response_format", problems) else { return };
    let mut inner = Fields::open(&[RESPONSE_FORMAT], "response_format", map, problems);
    let kind = inner.text("type");
    let described = inner.object("json_schema", problems);
    match kind.as_deref() {
        None => problems.missing("response_format.type"),
        Some("text") => {}
        Some("json_object") => found.push(Structured {
            field: "response_format".into(),
            constraint: Constraint::JsonObject,
        }),
        Some("json_schema") => match described {
            Some(map) => return found.extend(take_json_schema(map, problems)),
            None => problems.missing("response_format.json_schema"),
        },
        Some(other) => problems.add(
            "response_format.type",
            format!("must be text, json_object or json_schema, not {}", shown(&other.into())),
        ),
    }
    if described.is_some() {
        problems.add("response_format.json_schema", "is only allowed with type json_schema");
    }
}

/// `strict` or not, the schema is kept to; its name and description are for people.
fn take_json_schema(map: Map<String, Value>, problems: &mut Problems) -> Option<Structured> {
    const PATH: &str = "response_format.json_schema";
    let mut fields = Fields::open(&[JSON_SCHEMA], PATH, map, problems);
    let name = fields.text("name");
    let (_, _) = (fields.text("description"), fields.boolean("strict"));
    let value = fields.value("schema");
    fields.close(problems);
    if name.is_none_or(|name| name.is_empty()) {
        problems.missing(format!("{PATH}.name"));
    }
    let path = format!("{PATH}.schema");
    let Some(value) = value else {
        problems.missing(path);
        return None;
    };
    if !value.is_object() {
        problems.wrong_type(path, "an object", &value);
        return None;
    }
    Some(Structured { field: path, constraint: Constraint::JsonSchema(value) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(body: Value) -> Result<Option<Structured>, String> {
        let Value::Object(map) = body else { panic!("an object") };
        let mut problems = Problems::default();
        let mut fields = Fields::open(&[STRUCTURED], "", map, &mut problems);
        let taken = Structured::take(&mut fields, &mut problems);
        fields.close(&mut problems);
        match problems.into_result() {
            Ok(()) => Ok(taken),
            Err(problems) => Err(problems[0].param.clone()),
        }
    }

    #[test]
    fn every_way_to_say_it() {
        let schema = json!({"type": "integer"});
        let same = Constraint::JsonSchema(schema.clone());
        let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
        for (body, want) in [
            (json!({"response_format": format}), same.clone()),
            (json!({"guided_json": schema}), same.clone()),
            (json!({"guided_json": schema.to_string()}), same.clone()),
            (json!({"structured_outputs": {"json": schema}}), same),
            (json!({"response_format": {"type": "json_object"}}), Constraint::JsonObject),
            (json!({"structured_outputs": {"json_object": true}}), Constraint::JsonObject),
            (json!({"guided_regex": "a+"}), Constraint::Regex("a+".into())),
            (json!({"structured_outputs": {"regex": "a+"}}), Constraint::Regex("a+".into())),
            (json!({"guided_choice": ["a"]}), Constraint::Choice(vec!["a".into()])),
            (
                json!({"structured_outputs": {"choice": ["a"]}}),
                Constraint::Choice(vec!["a".into()]),
            ),
            (json!({"guided_grammar": "start: \"a\""}), Constraint::Lark("start: \"a\"".into())),
        ] {
            assert_eq!(take(body.clone()).unwrap().unwrap().constraint, want, "{body}");
        }
    }

    #[test]
    fn nothing_is_asked_for() {
        for body in [
            json!({}),
            json!({"response_format": {"type": "text"}}),
            json!({"guided_choice": []}),
            json!({"structured_outputs": {}}),
            json!({"structured_outputs": {"json_object": false}}),
        ] {
            assert_eq!(take(body.clone()), Ok(None), "{body}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, param) in [
            (json!({"response_format": {}}), "response_format.type"),
            (json!({"response_format": {"type": "xml"}}), "response_format.type"),
            (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}),
                "response_format.json_schema.name",
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}),
                "response_format.json_schema.schema",
            ),
            (
                json!({"response_format": {"type": "json_object", "json_schema": {}}}),
                "response_format.json_schema",
            ),
            (json!({"guided_json": "{"}), "guided_json"),
            (json!({"guided_json": [1]}), "guided_json"),
            (json!({"guided_choice": ["a", 1]}), "guided_choice[1]"),
            (json!({"structured_outputs": {"xml": 1}}), "structured_outputs.xml"),
            (json!({"guided_regex": "a", "guided_json": {}}), "guided_regex"),
            (
                json!({"response_format": {"type": "json_object"}, "guided_regex": "a"}),
                "guided_regex",
            ),
            (json!({"structured_outputs": {"regex": "a", "json": {}}}), "structured_outputs.regex"),
        ] {
            assert_eq!(take(body.clone()), Err(param.to_owned()), "{body}");
        }
    }
}
