//! A conversation at the terminal.

mod editor;
mod line;
mod transcript;

use std::path::PathBuf;

use tokenmill::{FinishReason, Model, Session, SessionOptions};

use self::{
    editor::{Editor, Typed},
    line::{COMMANDS, Command, Line},
};
use crate::{
    answer::{self, Answer, Show},
    args::{RunArgs, SamplingFlags},
    commands::{THINKING, chat_options, no_switch},
    environment,
    error::Error,
    interrupt::Interrupts,
    output::{BOLD, DIM, Output},
    settings,
};

/// Talks until the user leaves. With `raw` every entry is continued on its own, without template and memory.
pub fn talk(
    model: &Model,
    raw: bool,
    args: &RunArgs,
    output: &Output,
    interrupts: &Interrupts,
) -> Result<(), Error> {
    let history = if args.no_history { None } else { environment::history_file() };
    let mut editor = Editor::open(history, output)?;
    let mut talk = Talk::new(model, raw, args, output, interrupts);
    let device = &model.info().device;
    output.note(format_args!("{BOLD}{}{BOLD:#} on {device}; /help lists the commands", model.id()));
    if raw {
        output.note("every text is continued on its own: nothing is remembered");
    }
    loop {
        match editor.read()? {
            Typed::Leave => return Ok(()),
            Typed::NoText => output.reply("that was not UTF-8; the line is forgotten"),
            Typed::Interrupted => output.reply("Ctrl-C again, Ctrl-D or /quit leaves"),
            Typed::Entry(text) => match line::parse(&text) {
                Line::Empty => {}
                Line::Mistake(text) => output.reply(text),
                Line::Say(text) => talk.say(text)?,
                Line::Command(Command::Quit) => return Ok(()),
                Line::Command(command) => talk.obey(command)?,
            },
        }
    }
}

/// The conversation and what surrounds it.
struct Talk<'a> {
    model: &'a Model,
    session: Session,
    raw: bool,
    flags: SamplingFlags,
    changes: Vec<(String, String)>,
    last: Option<Answer>,
    saved: Option<PathBuf>,
    output: &'a Output,
    interrupts: &'a Interrupts,
}

impl<'a> Talk<'a> {
    fn new(
        model: &'a Model,
        raw: bool,
        args: &RunArgs,
        output: &'a Output,
        interrupts: &'a Interrupts,
    ) -> Self {
        let options = SessionOptions {
            system: args.system.clone(),
            chat: chat_options(args),
            generate: args.sampling.options(),
        };
        Talk {
            model,
            session: model.session(options),
            raw,
            flags: args.sampling.clone(),
            changes: Vec::new(),
            last: None,
            saved: None,
            output,
            interrupts,
        }
    }

    /// Streams the answer to `text`. What the model or the request got wrong is told, and the talk goes on; only a
    /// model that has failed ends it.
    fn say(&mut self, text: String) -> Result<(), Error> {
        let answer = if self.raw { self.continue_text(text) } else { self.ask(text) };
        // Ctrl-C has done its work on this answer.
        self.interrupts.take();
        match answer {
            Ok(answer) => {
                match answer.finish_reason {
                    FinishReason::Cancelled => {
                        self.output.reply(format_args!("{DIM}stopped{DIM:#}"));
                    }
                    FinishReason::Length => {
                        let options = &self.session.options_mut().generate;
                        let limit = self.model.resolve(options).ok().and_then(|all| all.max_tokens);
                        self.output.reply(format_args!("{DIM}{}{DIM:#}", answer.cut(limit)));
                    }
                    FinishReason::Stop | FinishReason::ToolCalls => {}
                }
                self.last = Some(answer);
                Ok(())
            }
            Err(Error::Library(error)) if error.fate() != tokenmill::Fate::Ours => {
                let is_long = matches!(error, tokenmill::Error::ContextLengthExceeded { .. });
                self.output.error(&answer::refused(error, self.model));
                if is_long && !self.raw {
                    self.output.reply("/reset forgets the conversation, /undo takes its end back");
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn ask(&mut self, text: String) -> Result<Answer, Error> {
        let events = self.session.ask(text)?;
        let cancel = events.cancellation_token();
        answer::stream(events, cancel, Show::Text, self.output, self.interrupts)
    }

    fn continue_text(&mut self, text: String) -> Result<Answer, Error> {
        let options = self.session.options_mut().generate.clone();
        let generation = self.model.generate(text, options)?;
        let cancel = generation.cancellation_token();
        answer::stream(generation, cancel, Show::Text, self.output, self.interrupts)
    }

    fn obey(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::Quit => {}
            Command::Help => self.help(),
            Command::Reset => {
                self.session.reset();
                self.output.reply("the conversation is forgotten");
            }
            Command::Undo => match self.session.undo() {
                Some(question) => {
                    self.output.reply(format_args!("taken back: {}", head(&question)))
                }
                None => self.output.reply("there is nothing to take back"),
            },
            Command::System(text) => self.system(text),
            Command::Set(None) => self.show_sampling(),
            Command::Set(Some((key, value))) => self.set(key, value),
            Command::Think(wanted) => self.think(wanted),
            Command::Stats => self.stats(),
            Command::Save(path) => self.save(path.into()),
        }
        Ok(())
    }

    fn help(&self) {
        for entry in COMMANDS {
            let usage = format!("{} {}", entry.name, entry.arguments);
            self.output.reply(format_args!("  {BOLD}{usage:<22}{BOLD:#} {}", entry.help));
        }
        self.output
            .reply("  A line that ends with \\ goes on; \"\"\" opens and closes several lines.");
        self.output.reply("  Ctrl-C stops an answer, Ctrl-D leaves.");
    }

    fn system(&mut self, text: Option<String>) {
        if self.raw {
            return self.output.reply("there is no system message: text is continued as it is");
        }
        let system = &mut self.session.options_mut().system;
        match text {
            None => match system {
                Some(text) => self.output.reply(text),
                None => self.output.reply("there is no system message"),
            },
            Some(text) => {
                let had = system.is_some();
                *system = Some(text).filter(|text| !text.is_empty());
                self.output.reply(match (had, system.is_some()) {
                    (_, true) => "the next question is asked with it; /reset forgets the rest",
                    (true, false) => "the next question is asked without a system message",
                    (false, false) => "there was no system message",
                });
            }
        }
    }

    fn think(&mut self, wanted: Option<bool>) {
        if self.raw || !self.model.template_reads(THINKING) {
            return self.output.reply(no_switch(self.model));
        }
        let arguments = &mut self.session.options_mut().chat.template_kwargs;
        if let Some(wanted) = wanted {
            arguments.insert(THINKING.to_owned(), wanted.into());
        }
        let state = match arguments.get(THINKING).and_then(serde_json::Value::as_bool) {
            Some(true) => "the model reasons before it answers",
            Some(false) => "the model answers without reasoning first",
            None => "whether the model reasons is as its chat template has it",
        };
        self.output.reply(state);
    }

    fn show_sampling(&self) {
        let flags = self.flags.with(&self.changes).unwrap_or_default();
        // Every key with what holds, then what has no value of its own: stop texts.
        let settings = self.model.resolve(&flags.options()).map(|all| all.settings);
        let settings = settings.unwrap_or_default();
        let effective = settings.iter().map(|setting| {
            let origin = settings::origin(setting);
            (setting.name.replace('_', "-"), format!("{:<16} {DIM}{origin}{DIM:#}", setting.value))
        });
        let effective: Vec<(String, String)> = effective.collect();
        let given = flags.shown().into_iter().map(|(key, value)| (key.to_owned(), value));
        let known = |key: &str| effective.iter().any(|(name, _)| name == key);
        let more: Vec<_> = given.filter(|(key, _)| !known(key)).collect();
        for (key, value) in effective.iter().chain(&more) {
            self.output.reply(format_args!("  {key:<22} {value}"));
        }
    }

    /// Lays one more entry over the flags; `default` takes earlier ones back.
    fn set(&mut self, key: String, value: String) {
        let key = key.replace('_', "-");
        let mut changes = self.changes.clone();
        let mut flags = self.flags.clone();
        if value == "default" {
            changes.retain(|(name, _)| *name != key);
            if !flags.clear(&key) {
                return self
                    .output
                    .reply(format_args!("there is no setting {key}; /set lists them"));
            }
        } else {
            // Only `stop` and `stop-token-id` may hold several values.
            changes.retain(|(name, _)| *name != key || key.starts_with("stop"));
            changes.push((key, value));
        }
        match flags.with(&changes) {
            Ok(all) => {
                if let Err(error) = self.model.resolve(&all.options()) {
                    return self.output.error(&error.into());
                }
                (self.flags, self.changes) = (flags, changes);
                self.session.options_mut().generate = all.options();
                self.show_sampling();
            }
            Err(message) => self.output.reply(message),
        }
    }

    fn stats(&self) {
        let Some(answer) = &self.last else {
            return self.output.reply("there was no answer yet");
        };
        let usage = &answer.usage;
        self.output.reply(format_args!(
            "prompt {} tokens ({} cached), answer {} tokens, ended by {}",
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.completion_tokens,
            reason(answer.finish_reason),
        ));
        let speed = &answer.speed;
        let first = speed.first_token_s.map_or("no token".into(), |time| format!("{time:.3} s"));
        let rate = speed.tokens_per_s.map_or("-".into(), |rate| format!("{rate:.1} tokens/s"));
        self.output
            .reply(format_args!("first token {first}, then {rate}, {:.2} s in all", speed.total_s));
    }

    fn save(&mut self, path: PathBuf) {
        let again = self.saved.as_ref() == Some(&path);
        let system = self.session.options_mut().system.clone();
        let text = transcript::of(self.model.id(), system.as_deref(), self.session.history());
        match transcript::write(&path, &text, again) {
            Ok(()) => {
                self.output.reply(format_args!("saved to {}", path.display()));
                self.saved = Some(path);
            }
            Err(error) => self.output.error(&Error::file(path, error)),
        }
    }
}

fn reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "a stop token or text",
        FinishReason::ToolCalls => "a call of a tool",
        FinishReason::Length => "its length",
        FinishReason::Cancelled => "Ctrl-C",
    }
}

/// The first line of a text, cut short.
fn head(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(60).collect();
    if short.len() < text.trim_end().len() { format!("{short} …") } else { short }
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(head("short"), "short");
        assert_eq!(head("one\ntwo"), "one …");
        assert_eq!(head(&"ž".repeat(80)).chars().count(), 62);
    }
}
