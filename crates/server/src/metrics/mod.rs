//! `/metrics`: the engines' numbers and the server's own, as Prometheus text.

mod families;
mod http;
mod text;

pub use families::render;
pub use http::HttpCounters;
