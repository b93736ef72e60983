//! The built program as a user meets it: arguments and input in, output, notices and exit codes out.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bench;
mod chat;
mod inspect;
mod load;
mod local;
mod machine;
mod pull;
mod run;
mod serve;
mod standin;
mod support;
mod tls;
