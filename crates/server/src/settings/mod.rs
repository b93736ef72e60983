//! Every setting of the server: one table, four places they may come from.
//!
//! An option is declared once, in [`OPTIONS`]. From its name follow the command-line flag (`--max-queue`), the
//! environment variable (`TOKENMILL_MAX_QUEUE`) and the key of the TOML file (`max_queue`). The flag beats the
//! variable, the variable beats the file, the file beats the default. A name that no option bears and a value that
//! does not parse are errors, and all of them are reported at once.
//!
//! Nothing here reads the environment or a file: the caller hands both in.

mod resolve;
mod table;
mod value;

pub use resolve::{Effective, Resolved, Settings, SettingsError, SettingsFile, Source};
pub use table::{OPTIONS, OptionSpec, Scope, find};
pub use value::{Kind, Value};
