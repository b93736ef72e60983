//! What a line typed at the chat prompt means.

/// A typed line, understood.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing was typed.
    Empty,
    /// Text for the model.
    Say(String),
    /// A command.
    Command(Command),
    /// A slash and something else; the text says what was wrong.
    Mistake(String),
}

/// A command at the chat prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Lists the commands.
    Help,
    /// Forgets the conversation.
    Reset,
    /// Takes the last exchange back.
    Undo,
    /// Shows (`None`), sets, or with an empty text removes the system message.
    System(Option<String>),
    /// Shows the sampling settings (`None`) or changes one.
    Set(Option<(String, String)>),
    /// Shows (`None`) or sets whether the model reasons before it answers.
    Think(Option<bool>),
    /// Numbers of the last answer.
    Stats,
    /// Writes the conversation to a file.
    Save(String),
    /// Leaves.
    Quit,
}

/// One command as `/help` shows it, and how its arguments become a [`Command`].
pub struct Entry {
    /// With the slash.
    pub name: &'static str,
    /// What may follow the name.
    pub arguments: &'static str,
    /// What it does.
    pub help: &'static str,
    parse: fn(&str) -> Option<Command>,
}

/// Every command.
pub const COMMANDS: &[Entry] = &[
    Entry {
        name: "/help",
        arguments: "",
        help: "show this list",
        parse: |rest| plain(rest, Command::Help),
    },
    Entry {
        name: "/reset",
        arguments: "",
        help: "forget the conversation, keep the system message",
        parse: |rest| plain(rest, Command::Reset),
    },
    Entry {
        name: "/undo",
        arguments: "",
        help: "take back the last question and its answer",
        parse: |rest| plain(rest, Command::Undo),
    },
    Entry {
        name: "/system",
        arguments: "[TEXT|none]",
        help: "show, set or remove the system message",
        parse: parse_system,
    },
    Entry {
        name: "/set",
        arguments: "[KEY VALUE]",
        help: "show or change sampling, for example /set temperature 0.7; VALUE default puts it back",
        parse: parse_set,
    },
    Entry {
        name: "/think",
        arguments: "[on|off]",
        help: "show or set whether the model reasons before it answers",
        parse: parse_think,
    },
    Entry {
        name: "/stats",
        arguments: "",
        help: "tokens and speed of the last answer",
        parse: |rest| plain(rest, Command::Stats),
    },
    Entry {
        name: "/save",
        arguments: "FILE",
        help: "write the conversation: FILE.json as messages, anything else as Markdown",
        parse: |rest| (!rest.is_empty()).then(|| Command::Save(rest.to_owned())),
    },
    Entry {
        name: "/quit",
        arguments: "",
        help: "leave (so does Ctrl-D)",
        parse: |rest| plain(rest, Command::Quit),
    },
];

/// Reads a whole entry, which may span several lines.
pub fn parse(input: &str) -> Line {
    let text = unfold(input);
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Line::Empty;
    }
    if let Some(literal) = trimmed.strip_prefix("//") {
        return Line::Say(format!("/{literal}"));
    }
    if !trimmed.starts_with('/') {
        return Line::Say(text.trim_end().to_owned());
    }
    let (name, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
    let name = if name == "/exit" { "/quit" } else { name };
    match COMMANDS.iter().find(|entry| entry.name == name) {
        None => Line::Mistake(format!(
            "unknown command {name}; /help lists them, and a text that begins with a slash is typed with two"
        )),
        Some(entry) => match (entry.parse)(rest.trim()) {
            Some(command) => Line::Command(command),
            None => Line::Mistake(format!("usage: {} {}", entry.name, entry.arguments)),
        },
    }
}

/// Whether the entry goes on: an open `"""`, or a backslash at its end.
pub fn is_incomplete(input: &str) -> bool {
    match input.trim_start().strip_prefix(FENCE) {
        Some(rest) => !rest.trim_end().ends_with(FENCE),
        None => input.ends_with('\\'),
    }
}

/// Opens and closes an entry of several lines.
const FENCE: &str = "\"\"\"";

/// Takes the marks of an entry of several lines away.
fn unfold(input: &str) -> String {
    let fenced = input.trim().strip_prefix(FENCE).and_then(|rest| rest.strip_suffix(FENCE));
    match fenced {
        Some(inner) => inner.trim_matches('\n').to_owned(),
        None => input.replace("\\\n", "\n"),
    }
}

fn plain(rest: &str, command: Command) -> Option<Command> {
    rest.is_empty().then_some(command)
}

fn parse_system(rest: &str) -> Option<Command> {
    Some(Command::System(match rest {
        "" => None,
        "none" => Some(String::new()),
        text => Some(text.to_owned()),
    }))
}

fn parse_set(rest: &str) -> Option<Command> {
    if rest.is_empty() {
        return Some(Command::Set(None));
    }
    let (key, value) = rest.split_once(char::is_whitespace)?;
    Some(Command::Set(Some((key.to_owned(), value.trim().to_owned()))))
}

fn parse_think(rest: &str) -> Option<Command> {
    match rest {
        "" => Some(Command::Think(None)),
        "on" => Some(Command::Think(Some(true))),
        "off" => Some(Command::Think(Some(false))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_to_the_model_and_slashes_are_commands() {
        assert_eq!(parse("  "), Line::Empty);
        assert_eq!(parse("hello "), Line::Say("hello".into()));
        assert_eq!(parse("/quit"), Line::Command(Command::Quit));
        assert_eq!(parse("/exit"), Line::Command(Command::Quit));
        assert_eq!(parse("//etc/hosts"), Line::Say("/etc/hosts".into()));
        assert_eq!(
            parse("/set top-p 0.9"),
            Line::Command(Command::Set(Some(("top-p".into(), "0.9".into()))))
        );
        assert_eq!(parse("/system"), Line::Command(Command::System(None)));
        assert_eq!(parse("/think off"), Line::Command(Command::Think(Some(false))));
        assert_eq!(parse("/system none"), Line::Command(Command::System(Some(String::new()))));
    }

    #[test]
    fn a_mistake_says_what_was_wrong() {
        assert!(matches!(parse("/rest"), Line::Mistake(text) if text.contains("/rest")));
        assert_eq!(parse("/save"), Line::Mistake("usage: /save FILE".into()));
        assert_eq!(parse("/set top-p"), Line::Mistake("usage: /set [KEY VALUE]".into()));
        assert!(matches!(parse("/undo it"), Line::Mistake(_)));
        assert_eq!(parse("/think no"), Line::Mistake("usage: /think [on|off]".into()));
    }

    #[test]
    fn several_lines_are_one_entry() {
        assert!(is_incomplete("first \\"));
        assert!(!is_incomplete("first \\\nsecond"));
        assert_eq!(parse("first \\\nsecond"), Line::Say("first \nsecond".into()));
        assert!(is_incomplete("\"\"\""));
        assert!(is_incomplete("\"\"\"one\n/quit"));
        assert!(!is_incomplete("\"\"\"one\n/quit\n\"\"\""));
        assert_eq!(parse("\"\"\"one\n/quit\n\"\"\""), Line::Say("one\n/quit".into()));
    }

    #[test]
    fn a_lone_fence_is_open_and_two_fences_are_closed() {
        assert!(is_incomplete("\"\"\"\"\"x"));
        assert!(!is_incomplete("\"\"\"\"\"\""));
    }
}
