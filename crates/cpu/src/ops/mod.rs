//! The operations of a decoder, one a file, in plain code with their formulas.
//!
//! Every operation treats each row by itself and in an order that depends on nothing but the row: a result never
//! changes with the rows that run beside it, with the number of threads, or with the way a prompt was cut into chunks.

pub mod activation;
pub mod attention;
pub mod embedding;
pub mod exp;
pub mod projection;
pub mod residual;
pub mod rms_norm;
pub mod rope;
pub mod routing;
pub mod softcap;
