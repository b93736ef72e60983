//! Log lines on standard error.

use std::io;

use server::settings::{Resolved, Source};
use tracing_subscriber::EnvFilter;

use crate::{commands::Verbosity, error::Error};

/// Begins to log. A level that was asked for (`--log-level`, its variable or the settings file) holds; else `-v` and
/// `-q` move the `usual` one.
pub fn start(settings: &Resolved, usual: &str, verbosity: Verbosity) -> Result<(), Error> {
    let asked = settings.get("log-level").source != Source::Default;
    let level = match (asked, verbosity.verbose, verbosity.quiet) {
        (true, ..) => settings.text("log-level").unwrap_or(usual),
        (_, 0, true) => "error",
        (_, 0, false) => usual,
        (_, 1, _) => "info",
        (_, 2, _) => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_new(level)
        .map_err(|error| Error::Usage(format!("log-level {level:?} does not read: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Setting it twice would be a defect of this program; there is one call.
    let done = match settings.text("log-format") {
        Some("json") => builder.json().try_init(),
        _ => builder.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).try_init(),
    };
    done.map_err(|error| Error::Usage(format!("logging was started twice: {error}")))
}
