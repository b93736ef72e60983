//! Flags made from the settings table, so that each setting is declared once.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, builder::PossibleValuesParser,
};
use server::settings::{Kind, OPTIONS, OptionSpec, Scope};

/// `tokenmill serve`.
#[derive(Args, Debug)]
#[command(
    after_help = "Every setting is also an environment variable (TOKENMILL_MAX_QUEUE) and a key of the file \
named by --config (max_queue). A flag beats a variable, a variable beats the file.

Examples:
  tokenmill serve ORG/NAME
  tokenmill serve ./DIRECTORY --port 8080 --api-key KEY
  tokenmill serve ./A ./B --served-model-name small,large"
)]
pub struct ServeArgs {
    /// Checkpoint directories, ORG/NAME[@REVISION] in the hub cache, or demo, which is built in
    #[arg(required = true, value_name = "MODEL")]
    pub models: Vec<String>,
    #[command(flatten)]
    pub settings: SettingFlags<AllScopes>,
}

/// The settings that say how a model is loaded.
pub type ModelFlags = SettingFlags<ModelScope>;

/// Which part of the settings table becomes flags.
pub trait Part {
    /// The heading in help.
    const HEADING: &'static str;

    /// Whether the option belongs to it.
    fn has(option: &OptionSpec) -> bool;
}

/// How models are loaded and run.
pub enum ModelScope {}

/// The whole table.
pub enum AllScopes {}

impl Part for ModelScope {
    const HEADING: &'static str = "Loading";

    fn has(option: &OptionSpec) -> bool {
        matches!(option.scope, Scope::Model | Scope::Program)
    }
}

impl Part for AllScopes {
    const HEADING: &'static str = "Settings";

    fn has(_: &OptionSpec) -> bool {
        true
    }
}

/// The settings given as flags, by name; lists are joined by commas.
pub struct SettingFlags<P> {
    given: BTreeMap<String, String>,
    part: PhantomData<P>,
}

impl<P> SettingFlags<P> {
    /// As the settings table resolves them.
    pub fn given(&self) -> BTreeMap<String, String> {
        self.given.clone()
    }
}

impl<P> fmt::Debug for SettingFlags<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: a value may be a secret.
        f.debug_set().entries(self.given.keys()).finish()
    }
}

impl<P: Part> Args for SettingFlags<P> {
    fn augment_args(command: Command) -> Command {
        OPTIONS
            .iter()
            .filter(|option| P::has(option))
            .fold(command, |command, option| command.arg(flag(option).help_heading(P::HEADING)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<P: Part> FromArgMatches for SettingFlags<P> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = SettingFlags { given: BTreeMap::new(), part: PhantomData };
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in OPTIONS.iter().filter(|option| P::has(option)) {
            if let Some(text) = given_text(option, matches) {
                self.given.insert(option.name.to_owned(), text);
            }
        }
        Ok(())
    }
}

fn flag(option: &OptionSpec) -> Arg {
    let arg = Arg::new(option.name).long(option.name).help(help(option));
    match option.kind {
        Kind::Switch => arg.action(ArgAction::SetTrue),
        Kind::List => arg.action(ArgAction::Append).value_name(value_name(option)),
        Kind::Choice(words) => {
            arg.value_parser(PossibleValuesParser::new(words)).value_name(value_name(option))
        }
        // A negative number with a unit is none to the parser of the command line.
        Kind::Bytes => arg.allow_hyphen_values(true).value_name(value_name(option)),
        _ => arg.value_name(value_name(option)),
    }
}

/// What stands for the value in help: what it means, where that says more than its form.
fn value_name(option: &OptionSpec) -> &'static str {
    match (option.name, option.kind) {
        ("config" | "chat-template", _) => "FILE",
        ("host", _) => "ADDRESS",
        ("port", _) => "PORT",
        ("device", _) => "DEVICE",
        ("kv-cache-dtype", _) => "TYPE",
        ("log-level", _) => "LEVEL",
        ("log-format", _) => "FORMAT",
        ("served-model-name", _) => "NAME[,NAME]",
        ("api-key" | "ignore-config-key", _) => "KEY[,KEY]",
        ("cors-origin", _) => "ORIGIN[,ORIGIN]",
        (_, Kind::List) => "TEXT[,TEXT]",
        (_, Kind::Choice(_)) => "CHOICE",
        (_, Kind::Count { .. }) => match option.unit {
            "tokens" => "TOKENS",
            "sequences" => "SEQUENCES",
            _ => "COUNT",
        },
        (_, Kind::Bytes) => "BYTES",
        (_, Kind::Part) => "PART",
        (_, Kind::Times) => "TIMES",
        (_, Kind::Seconds) => "SECONDS",
        (_, Kind::Text | Kind::LogFilter | Kind::Switch) => "TEXT",
    }
}

/// The table's sentence and the default.
fn help(option: &OptionSpec) -> String {
    let default = match (option.kind, option.default) {
        (Kind::Switch, _) => String::new(),
        (_, Some(default)) => format!(" [default: {default}]"),
        (_, None) if option.absent == "none" => String::new(),
        (_, None) => format!(" [default: {}]", option.absent),
    };
    format!("{}{default}", option.doc)
}

fn given_text(option: &OptionSpec, matches: &ArgMatches) -> Option<String> {
    match option.kind {
        Kind::Switch => matches.get_flag(option.name).then(|| "true".to_owned()),
        Kind::List => {
            let texts: Vec<&str> =
                matches.get_many::<String>(option.name)?.map(String::as_str).collect();
            Some(texts.join(","))
        }
        _ => matches.get_one::<String>(option.name).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Probe {
        #[command(flatten)]
        settings: SettingFlags<AllScopes>,
    }

    #[test]
    fn every_option_of_the_table_is_a_flag() {
        for option in OPTIONS {
            let mut words = vec!["probe".to_owned(), option.flag()];
            let value = match option.kind {
                Kind::Switch => None,
                Kind::Choice(words) => Some(words[0]),
                Kind::LogFilter => Some("info"),
                _ => Some("1"),
            };
            words.extend(value.map(str::to_owned));
            let given = Probe::try_parse_from(words).ok().map(|probe| probe.settings.given());
            let wanted = value.unwrap_or("true").to_owned();
            assert_eq!(given, Some(BTreeMap::from([(option.name.to_owned(), wanted)])));
        }
    }

    #[test]
    fn a_repeated_list_is_joined_and_values_stay_out_of_debug() {
        let probe = Probe::try_parse_from(["probe", "--api-key", "a", "--api-key=b,c"]).ok();
        let settings = probe.expect("the flags parse").settings;
        assert_eq!(settings.given()["api-key"], "a,b,c");
        assert_eq!(format!("{settings:?}"), "{\"api-key\"}");
    }
}
