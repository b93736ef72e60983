//! Flag over variable over file over default: what holds, and where it came from.

use std::{collections::BTreeMap, fmt, time::Duration};

use foundation::Bytes;

use super::{Kind, OPTIONS, OptionSpec, Scope, Value, find, table::ENV_PREFIX};

/// The act of resolving; see [`Settings::resolve`].
pub struct Settings;

/// What holds for every option of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    options: Vec<Effective>,
}

/// What holds for one option.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The option.
    pub option: &'static OptionSpec,
    /// Its value; `None`: not given, and without a default.
    pub value: Option<Value>,
    /// Where the value came from.
    pub source: Source,
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// The environment.
    Variable,
    /// The TOML file.
    File,
    /// The table.
    Default,
}

/// Something wrong with the settings. Each stops the start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A flag, variable or key that no option bears.
    #[error("{place} is not a setting{}", did_you_mean(.suggestion))]
    Unknown {
        /// How it was written, with its place: `variable TOKENMILL_PRT`.
        place: String,
        /// The nearest name in the same spelling.
        suggestion: Option<String>,
    },
    /// A value that does not read.
    #[error("{place} is {seen}; wanted {wanted}")]
    Invalid {
        /// Which setting, as written.
        place: String,
        /// What was found, in quotes if it is a text (hidden for secrets).
        seen: String,
        /// What would do.
        wanted: String,
    },
    /// The file is no TOML.
    #[error("{path} does not parse: {reason}")]
    File {
        /// The file.
        path: String,
        /// Where, and why.
        reason: String,
    },
    /// The option has no place in the file.
    #[error("{place} cannot be set there; use its flag or variable")]
    NotInFile {
        /// The key and its file.
        place: String,
    },
}

/// A file with settings: where it lies, and what it says.
#[derive(Clone, Copy, Debug)]
pub struct SettingsFile<'a> {
    /// As its user named it; errors do so, too.
    pub path: &'a str,
    /// TOML.
    pub text: &'a str,
}

impl Settings {
    /// Resolves every option of the table.
    ///
    /// `flags` maps option names (without dashes in front) to texts, lists joined by commas; `env` is the whole
    /// environment, of which only `TOKENMILL_*` is looked at, and of that only what is not empty; `file` is the TOML file.
    /// All findings are reported, not only the first.
    pub fn resolve(
        flags: BTreeMap<String, String>,
        env: impl IntoIterator<Item = (String, String)>,
        file: Option<SettingsFile<'_>>,
    ) -> Result<Resolved, Vec<SettingsError>> {
        let mut errors = Vec::new();
        let mut found: BTreeMap<&str, (Value, Source)> = BTreeMap::new();
        // Weakest first: what comes later overwrites. A bad value is an error even where a stronger one hides it.
        for given in read_file(file, &mut errors)
            .into_iter()
            .chain(read_env(env, &mut errors))
            .chain(read_flags(flags, &mut errors))
        {
            match given.option.kind.parse(&given.text) {
                Ok(value) => {
                    found.insert(given.option.name, (value, given.source));
                }
                Err(wanted) => errors.push(given.invalid(wanted)),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let options = OPTIONS.iter().map(|option| effective(option, &mut found)).collect();
        Ok(Resolved { options })
    }
}

impl Resolved {
    /// What holds for the option of that name.
    ///
    /// # Panics
    /// If the table has no such option: names are written in the program, not by users.
    pub fn get(&self, name: &str) -> &Effective {
        self.options
            .iter()
            .find(|effective| effective.option.name == name)
            .unwrap_or_else(|| panic!("the table has no option {name}"))
    }

    /// All options, in the order of the table.
    pub fn all(&self) -> &[Effective] {
        &self.options
    }

    /// A [`Kind::Text`] or [`Kind::Choice`] option.
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name).value {
            Some(Value::Text(text)) => Some(text),
            None => None,
            other => mismatch(name, other),
        }
    }

    /// A [`Kind::List`] option; empty where not given.
    pub fn list(&self, name: &str) -> &[String] {
        match &self.get(name).value {
            Some(Value::List(texts)) => texts,
            None => &[],
            other => mismatch(name, other),
        }
    }

    /// A [`Kind::Switch`] option; off where not given.
    pub fn switch(&self, name: &str) -> bool {
        match &self.get(name).value {
            Some(Value::Switch(on)) => *on,
            None => false,
            other => mismatch(name, other),
        }
    }

    /// A [`Kind::Count`] option.
    pub fn count(&self, name: &str) -> Option<u64> {
        match &self.get(name).value {
            Some(Value::Count(count)) => Some(*count),
            None => None,
            other => mismatch(name, other),
        }
    }

    /// A [`Kind::Bytes`] option.
    pub fn bytes(&self, name: &str) -> Option<Bytes> {
        match &self.get(name).value {
            Some(Value::Bytes(bytes)) => Some(*bytes),
            None => None,
            other => mismatch(name, other),
        }
    }

    /// A [`Kind::Part`] option.
    pub fn part(&self, name: &str) -> Option<f32> {
        match &self.get(name).value {
            Some(Value::Part(part)) => Some(*part),
            None => None,
            other => mismatch(name, other),
        }
    }

    /// A [`Kind::Times`] option.
    pub fn times(&self, name: &str) -> Option<f32> {
        match &self.get(name).value {
            Some(Value::Times(times)) => Some(*times),
            None => None,
            other => mismatch(name, other),
        }
    }

    /// A [`Kind::Seconds`] option.
    pub fn seconds(&self, name: &str) -> Option<Duration> {
        match &self.get(name).value {
            Some(Value::Seconds(time)) => Some(*time),
            None => None,
            other => mismatch(name, other),
        }
    }

    /// The effective settings for people, one line an option that is `told`: name, value, where it came from. Secrets are
    /// hidden.
    pub fn describe(&self, told: impl Fn(&OptionSpec) -> bool) -> String {
        let told = self.options.iter().filter(|effective| told(effective.option));
        let lines: Vec<String> = told.map(Effective::describe).collect();
        lines.join("\n")
    }
}

impl Effective {
    fn describe(&self) -> String {
        let value = match &self.value {
            None => self.option.absent.to_owned(),
            Some(_) if self.option.secret => "(hidden)".to_owned(),
            Some(value) if self.option.unit.is_empty() => value.to_string(),
            Some(value) => format!("{value} {}", self.option.unit),
        };
        let source = match self.source {
            Source::Default => "default".to_owned(),
            _ => self.place(),
        };
        format!("{:<24} {value:<36} {source}", self.option.name)
    }

    /// Where the value stands: `flag --port`, `variable TOKENMILL_PORT`, `key port of the settings file`, `built in`.
    pub fn place(&self) -> String {
        match self.source {
            Source::Flag => format!("flag {}", self.option.flag()),
            Source::Variable => format!("variable {}", self.option.env()),
            Source::File => format!("key {} of the settings file", self.option.key()),
            Source::Default => "built in".to_owned(),
        }
    }
}

fn mismatch<T>(name: &str, value: &Option<Value>) -> T {
    panic!("option {name} holds {value:?}, which is of another kind than the program asks for")
}

/// A text found somewhere for an option.
struct Given {
    option: &'static OptionSpec,
    text: String,
    place: String,
    source: Source,
}

impl Given {
    fn invalid(self, wanted: String) -> SettingsError {
        let seen =
            if self.option.secret { "(hidden)".to_owned() } else { format!("{:?}", self.text) };
        self.found(seen, wanted)
    }

    /// With what was `seen` as its place spells it.
    fn found(self, seen: String, wanted: String) -> SettingsError {
        let seen = if self.option.secret { "(hidden)".to_owned() } else { seen };
        SettingsError::Invalid { place: self.place, seen, wanted }
    }
}

fn effective(
    option: &'static OptionSpec,
    found: &mut BTreeMap<&str, (Value, Source)>,
) -> Effective {
    if let Some((value, source)) = found.remove(option.name) {
        return Effective { option, value: Some(value), source };
    }
    let value = option.default.map(|text| {
        option.kind.parse(text).expect("defaults of the table parse: checked by a test")
    });
    Effective { option, value, source: Source::Default }
}

fn read_flags(flags: BTreeMap<String, String>, errors: &mut Vec<SettingsError>) -> Vec<Given> {
    let mut given = Vec::new();
    for (name, text) in flags {
        let place = format!("flag --{name}");
        match find(&name) {
            Some(option) => given.push(Given { option, text, place, source: Source::Flag }),
            None => errors.push(unknown(place, &name, |option| option.flag())),
        }
    }
    given
}

fn read_env(
    env: impl IntoIterator<Item = (String, String)>,
    errors: &mut Vec<SettingsError>,
) -> Vec<Given> {
    let mut given = Vec::new();
    for (name, text) in env {
        // Scripts pass variables on that may be empty: that says nothing.
        if !name.starts_with(ENV_PREFIX) || text.is_empty() {
            continue;
        }
        let place = format!("variable {name}");
        match OPTIONS.iter().find(|option| option.env() == name) {
            Some(option) => given.push(Given { option, text, place, source: Source::Variable }),
            None => errors.push(unknown(place, &name, OptionSpec::env)),
        }
    }
    given
}

fn read_file(file: Option<SettingsFile<'_>>, errors: &mut Vec<SettingsError>) -> Vec<Given> {
    let Some(SettingsFile { path, text }) = file else { return Vec::new() };
    let table = match text.parse::<toml::Table>() {
        Ok(table) => table,
        Err(error) => {
            let reason = error.to_string().trim_end().to_owned();
            errors.push(SettingsError::File { path: path.to_owned(), reason });
            return Vec::new();
        }
    };
    let mut given = Vec::new();
    for (key, value) in table {
        let place = format!("key {key} of {path}");
        let Some(option) = OPTIONS.iter().find(|option| option.key() == key) else {
            errors.push(unknown(place, &key, OptionSpec::key));
            continue;
        };
        if option.scope == Scope::Program && option.name == "config" {
            errors.push(SettingsError::NotInFile { place });
            continue;
        }
        let seen = toml_seen(&value);
        match toml_text(option.kind, value) {
            Some(text) => given.push(Given { option, text, place, source: Source::File }),
            None => {
                let wrong = Given { option, text: String::new(), place, source: Source::File };
                errors.push(wrong.found(seen, option.kind.wanted()));
            }
        }
    }
    given
}

/// A TOML value of the wrong type as the error shows it.
fn toml_seen(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => format!("the text {text:?}"),
        other => other.to_string(),
    }
}

/// A TOML value as the text that the flag would carry; `None` where the type does not fit the kind.
fn toml_text(kind: Kind, value: toml::Value) -> Option<String> {
    match (kind, value) {
        (Kind::Switch, toml::Value::Boolean(on)) => Some(on.to_string()),
        (
            Kind::Count { .. } | Kind::Bytes | Kind::Part | Kind::Times | Kind::Seconds,
            toml::Value::Integer(number),
        ) => Some(number.to_string()),
        (Kind::Seconds | Kind::Part | Kind::Times, toml::Value::Float(number)) => {
            Some(number.to_string())
        }
        (
            Kind::Bytes | Kind::Text | Kind::LogFilter | Kind::Choice(_) | Kind::List,
            toml::Value::String(text),
        ) => Some(text),
        (Kind::List, toml::Value::Array(items)) => {
            let texts: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => None,
    }
}

fn unknown(place: String, name: &str, spelling: fn(&OptionSpec) -> String) -> SettingsError {
    // What all names begin with makes no two of them alike.
    let bare = |name: &str| name.trim_start_matches('-').trim_start_matches(ENV_PREFIX).to_owned();
    let nearest = OPTIONS
        .iter()
        .map(spelling)
        .map(|known| (strsim::jaro_winkler(&bare(name), &bare(&known)), known))
        .max_by(|left, right| left.0.total_cmp(&right.0));
    let suggestion = nearest.filter(|(likeness, _)| *likeness > 0.85).map(|(_, known)| known);
    SettingsError::Unknown { place, suggestion }
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Source::Flag => "flag",
            Source::Variable => "variable",
            Source::File => "file",
            Source::Default => "default",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    }

    fn resolve(
        flags: &[(&str, &str)],
        env: &[(&str, &str)],
        file: &str,
    ) -> Result<Resolved, Vec<SettingsError>> {
        let file = SettingsFile { path: "mill.toml", text: file };
        Settings::resolve(pairs(flags).into_iter().collect(), pairs(env), Some(file))
    }

    #[test]
    fn flag_beats_variable_beats_file_beats_default() {
        let file = "port = 1\nmax_queue = 1\nthreads = 1\n";
        let env = [("TOKENMILL_PORT", "2"), ("TOKENMILL_MAX_QUEUE", "2"), ("HOME", "/")];
        let resolved = resolve(&[("port", "3")], &env, file).unwrap();
        let row = |name: &str| (resolved.count(name), resolved.get(name).source);
        assert_eq!(row("port"), (Some(3), Source::Flag));
        assert_eq!(row("max-queue"), (Some(2), Source::Variable));
        assert_eq!(row("threads"), (Some(1), Source::File));
        assert_eq!(row("max-num-seqs"), (Some(64), Source::Default));
        assert_eq!(row("max-model-len"), (None, Source::Default));
    }

    /// The first words of choices, as TOML has them.
    fn quoted(word: &str) -> &'static str {
        let known = ["\"auto\"", "\"text\"", "\"none\""];
        known.into_iter().find(|text| text.trim_matches('"') == word).unwrap()
    }

    #[test]
    fn every_option_can_be_given_in_each_place() {
        for option in OPTIONS {
            let (text, toml) = match option.kind {
                Kind::Switch => ("true", "true"),
                Kind::Text => ("words", "\"words\""),
                Kind::LogFilter => ("debug", "\"debug\""),
                Kind::Choice(words) => (words[0], quoted(words[0])),
                Kind::List => ("a,b", "[\"a\", \"b\"]"),
                Kind::Count { .. } => ("7", "7"),
                Kind::Bytes => ("7KiB", "\"7KiB\""),
                Kind::Part => ("0.7", "0.7"),
                Kind::Times => ("1.5", "1.5"),
                Kind::Seconds => ("7.5", "7.5"),
            };
            let want = option.kind.parse(text).unwrap();
            let flag = resolve(&[(option.name, text)], &[], "").unwrap();
            assert_eq!(flag.get(option.name).value, Some(want.clone()));
            let env = resolve(&[], &[(&option.env(), text)], "").unwrap();
            assert_eq!(env.get(option.name).value, Some(want.clone()));
            let file = resolve(&[], &[], &format!("{} = {toml}", option.key()));
            if option.name == "config" {
                assert_eq!(
                    file,
                    Err(vec![SettingsError::NotInFile { place: "key config of mill.toml".into() }])
                );
            } else {
                assert_eq!(file.unwrap().get(option.name).value, Some(want));
            }
        }
    }

    #[test]
    fn all_mistakes_are_reported_at_once_with_the_nearest_name() {
        let errors = resolve(
            &[("max-que", "9")],
            &[("TOKENMILL_PROT", "1"), ("TOKENMILL_PORT", "eighty"), ("TOKENMILL_SEED", "1")],
            "thread = 4\nport = \"80\"\nzebra = 1",
        )
        .unwrap_err();
        let lines: Vec<String> = errors.iter().map(SettingsError::to_string).collect();
        for line in [
            "flag --max-que is not a setting; did you mean --max-queue?",
            "variable TOKENMILL_PROT is not a setting; did you mean TOKENMILL_PORT?",
            "variable TOKENMILL_PORT is \"eighty\"; wanted a whole number from 0 to 65535",
            "variable TOKENMILL_SEED is not a setting",
            "key thread of mill.toml is not a setting; did you mean threads?",
            "key port of mill.toml is the text \"80\"; wanted a whole number from 0 to 65535",
            "key zebra of mill.toml is not a setting",
        ] {
            assert!(lines.iter().any(|seen| seen == line), "{line}\nnot in {lines:#?}");
        }
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn an_empty_variable_says_nothing() {
        let resolved = resolve(&[], &[("TOKENMILL_PORT", ""), ("TOKENMILL_NONE", "")], "").unwrap();
        assert_eq!(resolved.get("port").source, Source::Default);
    }

    #[test]
    fn a_bad_value_is_an_error_even_where_a_stronger_one_hides_it() {
        assert!(resolve(&[("port", "80")], &[("TOKENMILL_PORT", "x")], "").is_err());
        assert!(matches!(
            resolve(&[], &[], "port = ").unwrap_err()[..],
            [SettingsError::File { .. }]
        ));
    }

    #[test]
    fn the_report_shows_value_and_source_but_no_secret() {
        let resolved =
            resolve(&[("api-key", "hunter2")], &[("TOKENMILL_MAX_BODY", "1MiB")], "").unwrap();
        let report = resolved.describe(|_| true);
        assert!(!report.contains("hunter2"));
        assert!(report.contains("(hidden)"));
        let line =
            |name: &str| report.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let words =
            |name: &str| line(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words("max-body"), ["max-body", "1.0", "MiB", "variable", "TOKENMILL_MAX_BODY"]);
        assert!(resolved.describe(|option| option.name == "port").lines().count() == 1);
        assert_eq!(words("port"), ["port", "8000", "default"]);
        let bad_key = resolve(&[("api-key", "a,,b")], &[], "").unwrap_err();
        assert!(!bad_key[0].to_string().contains("a,,b"));
    }
}
