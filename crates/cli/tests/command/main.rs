//! The built program as a user meets it: arguments and input in, output, notices and exit codes out.

mod bench;
mod chat;
mod inspect;
mod local;
mod machine;
mod run;
mod serve;
mod support;
