//! The driver layer: the only place that knows CUDA's C interface.
//!
//! A [`Gpu`] is a device with its context and loaded kernels; a [`Stream`] takes launches and copies in order; [`Buffer`]s own
//! device memory and lend typed [`View`]s of it; a [`Graph`] replays captured launches. Nothing here panics in `drop`.

#![allow(unsafe_code)]

pub mod cublaslt;
mod error;
mod event;
mod flight;
mod gpu;
mod graph;
mod image;
mod limits;
mod memory;
mod pinned;
mod stream;
mod tensor_map;

pub use error::DriverError;
pub use event::Event;
pub use flight::FlightRecorder;
pub use gpu::{Gpu, driver_version};
pub use graph::Graph;
pub(crate) use image::image;
pub use image::{Image, Kernel};
pub use limits::DeviceLimits;
pub use memory::{Buffer, View, ViewMut};
pub use pinned::{Pinned, PinnedRoom};
pub use stream::{Planes, Rows, Shape, Stream};
pub use tensor_map::{Swizzle, TensorMap};
