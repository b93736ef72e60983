//! `tokenmill serve`: models over the OpenAI API.

use futures::{Stream, StreamExt, stream};
use server::{
    Ending, Server, ServerOptions,
    settings::{Resolved, Scope},
};
use tokenmill::{Library, Model, ModelOptions};
use tokio::{runtime::Runtime, sync::oneshot, task::JoinHandle};

use super::Verbosity;
use crate::{
    args::ServeArgs,
    error::Error,
    interrupt::Interrupts,
    logging,
    output::{BOLD, DIM, Output},
    progress::Progress,
    settings,
};

/// Listens, loads, serves until SIGTERM or Ctrl-C, and lets what runs finish.
pub fn serve(args: ServeArgs, verbosity: Verbosity, output: &Output) -> Result<(), Error> {
    let resolved = settings::resolve(args.settings.given())?;
    logging::start(&resolved, "info", verbosity)?;
    let runtime = Runtime::new().map_err(|source| Error::io("starting the runtime", source))?;
    let library = settings::library(&resolved)?;
    let names = names(&args.models, resolved.list("served-model-name"))?;
    for reference in &args.models {
        library.resolve(reference)?;
    }
    let output = *output;
    let ending = runtime.block_on(async {
        // Bound before the models are loaded: a port that is taken is told at once.
        let server = Server::bind(ServerOptions::from_settings(&resolved)).await?;
        // What holds of a model's settings is known once it is loaded, and told then.
        for line in resolved.describe(|option| option.scope != Scope::Model).lines() {
            output.note(format_args!("{DIM}{line}{DIM:#}"));
        }
        let models = args.models.into_iter().zip(names).collect();
        let signals = server::termination_signals()
            .map_err(|source| Error::io("listening for signals", source))?;
        serve_models(server, signals, library, models, resolved, output).await
    });
    // A load that is still under way must not hold the exit up.
    runtime.shutdown_background();
    ended(ending?)
}

/// What the way it ended means for the exit code.
fn ended(ending: Ending) -> Result<(), Error> {
    match ending {
        Ending::Drained => Ok(()),
        Ending::CutOff => Err(Error::Partly("requests were cut off at the end".into())),
        Ending::Lost(why) => {
            Err(Error::Partly(format!("{why}; the server has to be started again")))
        }
    }
}

/// The id of each model, where names were given. The only model keeps its own: its names are aliases.
fn names(models: &[String], given: &[String]) -> Result<Vec<Option<String>>, Error> {
    if let Some((index, name)) = repeated(given) {
        let text = format!("--served-model-name: {name} is there twice (number {})", index + 1);
        return Err(Error::Usage(text));
    }
    match (models.len(), given.len()) {
        (1, _) => Ok(vec![None]),
        (count, 0) => match repeated(models) {
            None => Ok(vec![None; count]),
            Some((_, model)) => Err(Error::Usage(format!(
                "{model} is to be served twice: give each model a name with --served-model-name"
            ))),
        },
        (count, names) if count == names => Ok(given.iter().cloned().map(Some).collect()),
        (count, names) => Err(Error::Usage(format!(
            "--served-model-name gives {names} names for {count} models: with several models each needs exactly one"
        ))),
    }
}

/// The first text that stands before already.
fn repeated(texts: &[String]) -> Option<(usize, &String)> {
    texts.iter().enumerate().find(|(index, text)| texts[..*index].contains(text))
}

/// Serves while the models are loaded (requests hear that they come), then with them.
async fn serve_models(
    server: Server,
    signals: impl Stream<Item = ()> + Send + Unpin,
    library: Library,
    models: Vec<(String, Option<String>)>,
    resolved: Resolved,
    output: Output,
) -> Result<Ending, Error> {
    let (address, state) = (server.address(), server.state());
    let loading = tokio::task::spawn_blocking(move || load(&library, &models, &resolved, &output));
    let ready = async {
        let models = loading.await.map_err(|error| Error::io("loading", error.into()))??;
        tell_models(&models, &output);
        state.publish(models);
        output.note(format_args!("{BOLD}ready on http://{address}{BOLD:#}"));
        Ok::<(), Error>(())
    };
    let serving = server.run(signals);
    tokio::pin!(serving);
    tokio::select! {
        loaded = ready => loaded?,
        // Told to end while loading: there is nothing to finish.
        _ = &mut serving => return Err(Error::Interrupted),
    }
    Ok(serving.await)
}

fn load(
    library: &Library,
    models: &[(String, Option<String>)],
    resolved: &Resolved,
    output: &Output,
) -> Result<Vec<Model>, Error> {
    // Ctrl-C ends the server itself; here nothing needs to listen for it.
    let interrupts = Interrupts::default();
    let load = |(reference, name): &(String, Option<String>)| {
        let mut progress = Progress::new(output, &interrupts);
        let options = ModelOptions { id: name.clone(), ..settings::model_options(resolved) };
        Ok(library.load(reference, options, &mut |event| progress.loading(event))?)
    };
    models.iter().map(load).collect()
}

/// What holds for each model, and why.
fn tell_models(models: &[Model], output: &Output) {
    for model in models {
        output.note(format_args!("{BOLD}{}{BOLD:#}", model.id()));
        for setting in model.settings() {
            let (name, value) = (settings::name(setting), settings::value(setting));
            let origin = settings::origin(setting);
            output.note(format_args!("{DIM}{name:<24} {value:<36} {origin}{DIM:#}"));
        }
    }
}

/// A server beside the work of this process.
pub struct Background {
    url: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Ending>,
}

impl Background {
    /// Serves `models` on a free port of this machine, to everybody on it.
    pub async fn start(models: Vec<Model>, resolved: &Resolved) -> Result<Self, Error> {
        let options = ServerOptions {
            host: "127.0.0.1".into(),
            port: 0,
            served_names: Vec::new(),
            api_keys: Vec::new(),
            ..ServerOptions::from_settings(resolved)
        };
        let server = Server::bind(options).await?;
        server.state().publish(models);
        let url = format!("http://{}", server.address());
        let (stop, stopped) = oneshot::channel();
        let stopped = stream::once(stopped).map(|_| ()).boxed();
        Ok(Background { url, stop, serving: tokio::spawn(server.run(stopped)) })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Lets what runs finish, and ends.
    pub async fn stop(self) {
        // It fails only when the server has ended already.
        let _ = self.stop.send(());
        let _ = self.serving.await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, ended, names};
    use crate::error::Exit;

    fn named(models: &[&str], given: &[&str]) -> Result<Vec<Option<String>>, String> {
        let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        names(&texts(models), &texts(given)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_lost_model_is_a_failure_that_says_why() {
        assert!(ended(Ending::Drained).is_ok());
        let lost = ended(Ending::Lost("tiny: a kernel touched memory".into())).unwrap_err();
        assert_eq!(lost.exit(), Exit::Failed);
        assert!(lost.sentence().starts_with("tiny: a kernel touched memory;"), "{lost}");
    }

    #[test]
    fn several_models_need_a_name_each_or_none() {
        let (a, b) = (Some("a".to_owned()), Some("b".to_owned()));
        assert_eq!(named(&["x"], &["a", "b"]), Ok(vec![None]));
        assert_eq!(named(&["x", "y"], &[]), Ok(vec![None, None]));
        assert_eq!(named(&["x", "x"], &["a", "b"]), Ok(vec![a, b]));
        let counts = named(&["x", "y"], &["a", "b", "c"]).unwrap_err();
        assert!(counts.contains("3 names for 2 models"), "{counts}");
        assert!(named(&["x", "y"], &["a", "a"]).is_err());
        assert!(named(&["x", "x"], &[]).unwrap_err().contains("twice"));
    }
}
