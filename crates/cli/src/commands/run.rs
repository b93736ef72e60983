//! `tokenmill run`: a chat at the terminal, or one answer.

use std::io::{self, IsTerminal};

use tokenmill::{ChatMessage, ChatOptions, Library, LibraryOptions, Model};

use super::Verbosity;
use crate::{
    answer::{self, Show},
    args::RunArgs,
    bounded::{self, MAX_STDIN},
    chat,
    error::Error,
    interrupt::Interrupts,
    logging,
    output::{DIM, Output},
    progress::Progress,
    settings,
};

/// Answers once where there is a prompt, else talks.
pub fn run(args: RunArgs, verbosity: Verbosity, output: &Output) -> Result<(), Error> {
    let resolved = settings::resolve(args.settings.given())?;
    logging::start(&resolved, "warn", verbosity)?;
    let Some(reference) = &args.model else { return Err(no_model()) };
    let interrupts = Interrupts::listen()?;
    let prompt = prompt(&args, output)?;
    if prompt.is_none() && args.json {
        return Err(Error::Usage("--json needs a prompt: give -p TEXT or a pipe".into()));
    }
    let library = settings::library(&resolved)?;
    let mut progress = Progress::new(output, &interrupts);
    let model = {
        let _reads_only = progress.ends_at_once();
        let options = settings::model_options(&resolved);
        library.load(reference, options, &mut |event| progress.loading(event))?
    };
    progress.clear();
    tell_settings(&model);
    let raw = args.raw || continues_raw(&model, &args, output)?;
    if args.no_thinking && !model.template_reads(THINKING) {
        return Err(Error::Usage(no_switch(&model)));
    }
    match prompt {
        Some(prompt) => once(&model, prompt, raw, &args, output, &interrupts),
        None => chat::talk(&model, raw, &args, output, &interrupts),
    }
}

/// One answer to `prompt`.
fn once(
    model: &Model,
    prompt: String,
    raw: bool,
    args: &RunArgs,
    output: &Output,
    interrupts: &Interrupts,
) -> Result<(), Error> {
    let options = args.sampling.options();
    let limit = model.resolve(&options)?.max_tokens;
    let failed = |error| answer::refused(error, model);
    let generation = if raw {
        model.generate(prompt, options).map_err(failed)?
    } else {
        let system = args.system.iter().map(|text| ChatMessage::system(text.as_str()));
        let messages = system.chain([ChatMessage::user(prompt)]).collect();
        model.chat(messages, chat_options(args), options).map_err(failed)?
    };
    let show = if args.json { Show::Json } else { Show::Text };
    let cancel = generation.cancellation_token();
    let answer = answer::stream(generation, cancel, show, output, interrupts)?;
    match answer.finish_reason {
        tokenmill::FinishReason::Cancelled => Err(Error::Interrupted),
        tokenmill::FinishReason::Length => {
            output.note(format_args!("{DIM}{}{DIM:#}", answer.cut(limit)));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The argument by which chat templates turn reasoning on and off.
pub const THINKING: &str = "enable_thinking";

/// What to say where a template has no such argument.
pub fn no_switch(model: &Model) -> String {
    format!(
        "the chat template of {} does not read {THINKING}: whether it reasons is not for it to say",
        model.id()
    )
}

/// How conversations are rendered.
pub fn chat_options(args: &RunArgs) -> ChatOptions {
    let off = args.no_thinking.then(|| (THINKING.to_owned(), false.into()));
    ChatOptions {
        template_kwargs: args.template_arg.iter().cloned().chain(off).collect(),
        ..ChatOptions::default()
    }
}

/// The text to answer: `-p`, what comes through a pipe, or both. `None`: somebody sits at the terminal.
fn prompt(args: &RunArgs, output: &Output) -> Result<Option<String>, Error> {
    let piped = !io::stdin().is_terminal();
    match (&args.prompt, piped) {
        (Some(prompt), false) => Ok(Some(prompt.clone())),
        (Some(prompt), true) => Ok(Some(join(prompt, &read_stdin()?))),
        (None, true) => {
            let text = read_stdin()?;
            if text.trim().is_empty() {
                return Err(Error::Usage("standard input is empty: nothing to answer".into()));
            }
            Ok(Some(text.trim_end_matches('\n').to_owned()))
        }
        (None, false) if output.stdout_is_terminal => Ok(None),
        (None, false) => {
            output.note("reading the prompt from the terminal up to Ctrl-D");
            Ok(Some(read_stdin()?))
        }
    }
}

/// The prompt, then the input below it.
fn join(prompt: &str, input: &str) -> String {
    let input = input.trim_end_matches('\n');
    if input.is_empty() { prompt.to_owned() } else { format!("{prompt}\n\n{input}") }
}

fn read_stdin() -> Result<String, Error> {
    bounded::read(io::stdin().lock(), MAX_STDIN).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Error::Usage(format!("standard input: {error}")),
        _ => Error::io("reading standard input", error),
    })
}

/// Whether text is continued as it is because the model has no chat template; says so.
fn continues_raw(model: &Model, args: &RunArgs, output: &Output) -> Result<bool, Error> {
    if model.has_chat_template() {
        return Ok(false);
    }
    if args.system.is_some() || !args.template_arg.is_empty() {
        let text = format!(
            "{} has no chat template, so --system and --template-arg have no place in its prompt; \
             give a template with --chat-template FILE",
            model.id()
        );
        return Err(Error::Usage(text));
    }
    output
        .note(format_args!("{} has no chat template: the text is continued as it is", model.id()));
    Ok(true)
}

/// What holds and why, for `-v`.
fn tell_settings(model: &Model) {
    for setting in model.settings() {
        let (name, value) = (settings::name(setting), settings::value(setting));
        tracing::info!(name, value, origin = settings::origin(setting), "setting");
    }
}

/// What MODEL may be, with an example of each. A model that is built in goes to the front, where it needs nothing else.
const WAYS_TO_A_MODEL: &[(&str, &str)] = &[
    ("the small model that is built in, to try things out", "tokenmill run demo"),
    ("a directory with config.json and safetensors", "tokenmill run ./DIRECTORY"),
    ("a model of the hub, once it is here", "tokenmill pull ORG/NAME && tokenmill run ORG/NAME"),
];

/// What to say when no MODEL was given.
fn no_model() -> Error {
    // Where the cache cannot be read, the ways to a model are still worth telling.
    let local = Library::new(LibraryOptions::default()).and_then(|library| library.local_models());
    let names: Vec<String> =
        local.unwrap_or_default().into_iter().map(|model| model.name).collect();
    Error::Usage(ways_to_a_model(&names))
}

/// `local`: names of the models in the hub cache.
fn ways_to_a_model(local: &[String]) -> String {
    const SHOWN: usize = 10;
    let mut text = "no MODEL given. It is\n".to_owned();
    for (what, example) in WAYS_TO_A_MODEL {
        text.push_str(&format!("  {what}:\n      {example}\n"));
    }
    if local.is_empty() {
        text.push_str("The hub cache is empty so far; `tokenmill list` shows what is in it.");
        return text;
    }
    text.push_str("In the hub cache (`tokenmill list` tells more):");
    for name in local.iter().take(SHOWN) {
        text.push_str(&format!("\n  {name}"));
    }
    if let Some(more) = local.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{join, ways_to_a_model};

    #[test]
    fn the_ways_to_a_model_are_few_lines_however_many_there_are() {
        let names: Vec<String> = (0..500).map(|index| format!("org/model-{index}")).collect();
        let text = ways_to_a_model(&names);
        assert!(text.contains("org/model-9\n") && !text.contains("org/model-10"), "{text}");
        assert!(text.ends_with("and 490 more"), "{text}");
        assert!(ways_to_a_model(&names[..10]).ends_with("org/model-9"));
    }

    #[test]
    fn the_input_stands_below_the_prompt() {
        assert_eq!(join("sum up:", "a\nb\n"), "sum up:\n\na\nb");
        assert_eq!(join("hi", "\n"), "hi");
    }
}
