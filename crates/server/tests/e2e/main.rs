//! The server as its clients see it: real sockets, the real backend, the fixtures of the repository.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod client;
mod errors;
mod faults;
mod generation;
mod goldens;
mod house;
mod life;
mod limits;
mod routes;
mod streaming;
mod structured;
mod tools;
