//! Products that the library does: prepared once a shape, launched with a workspace of fixed address.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use super::{Args, Output, Problem};
use crate::driver::{
    Buffer, DriverError, Stream,
    cublaslt::{Algorithm, Cublaslt, Operands, Product, ProductShape, Why},
};

/// The library, its scratch memory, and the products it was asked for.
#[derive(Debug)]
pub(super) struct Library {
    cublaslt: Cublaslt,
    workspace: Buffer<u8>,
    /// By shape: the product, or `None` where the library has no algorithm for it.
    prepared: Mutex<AllPrepared>,
}

type AllPrepared = HashMap<ProductShape, Option<Prepared>>;

#[derive(Debug)]
struct Prepared {
    product: Product,
    algorithm: Algorithm,
}

/// The number of rows whose algorithm so many rows take unless one was chosen: asking the library takes about a millisecond, and
/// prompts have any length. Up to 256 each number has its own, beyond that there are four to an octave.
pub(super) fn class_of(rows: u32) -> u32 {
    match rows {
        0..=256 => rows,
        _ => rows.next_multiple_of((rows.next_power_of_two() / 8).max(64)),
    }
}

/// A problem as the library would see it; `None` for what it cannot be asked.
pub(super) fn shape_of(problem: &Problem) -> Option<ProductShape> {
    let Problem { rows, n, k, bias, output, invariant } = *problem;
    let (wide, add) = match output {
        Output::Bf16 => (false, false),
        Output::F32 => (true, false),
        Output::AddF32 => (true, true),
        Output::GateUp(_) => return None,
    };
    (!invariant && rows > 0).then_some(ProductShape { rows, n, k, bias, wide, add })
}

impl Library {
    pub(super) fn new(cublaslt: Cublaslt, workspace: Buffer<u8>) -> Library {
        Library { cublaslt, workspace, prepared: Mutex::default() }
    }

    /// Its version, as the library counts.
    pub(super) fn version(&self) -> usize {
        self.cublaslt.version()
    }

    /// Whether the library does the problem; the first time a shape is seen it is asked, which takes a moment. It takes the
    /// algorithm of `like` rows, if it can.
    pub(super) fn can(&self, problem: &Problem, like: u32) -> bool {
        let Some(shape) = shape_of(problem) else { return false };
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepared(shape, like, &mut prepared).is_some()
    }

    /// Looks a shape up, or prepares it as that of `like` rows is.
    fn prepared<'a>(
        &self,
        shape: ProductShape,
        like: u32,
        all: &'a mut AllPrepared,
    ) -> Option<&'a Prepared> {
        if !all.contains_key(&shape) {
            let model = ProductShape { rows: like, ..shape };
            let known = match model == shape {
                true => None,
                false => self.prepared(model, like, all).map(|prepared| prepared.algorithm),
            };
            let made = self.prepare(shape, known);
            all.insert(shape, made);
        }
        all.get(&shape)?.as_ref()
    }

    /// By the algorithm that is known, if the library takes it, or else by its favourite.
    fn prepare(&self, shape: ProductShape, known: Option<Algorithm>) -> Option<Prepared> {
        let most = self.workspace.len() as u64;
        let asked = self.cublaslt.product(shape).and_then(|product| {
            let known = known.and_then(|algorithm| product.accepts(&algorithm));
            if let Some(algorithm) = known.filter(|algorithm| algorithm.workspace <= most) {
                return Ok(Prepared { product, algorithm });
            }
            let algorithms = product.algorithms(most, 1)?;
            let algorithm = *algorithms.first().ok_or(Why::NoAlgorithm(shape))?;
            Ok(Prepared { product, algorithm })
        });
        asked
            .inspect_err(
                |error| tracing::debug!(%error, "this program's own kernel takes the product"),
            )
            .ok()
    }

    /// The first `limit` algorithms for a problem, the library's favourite first.
    pub(super) fn algorithms(&self, problem: &Problem, limit: usize) -> Vec<Algorithm> {
        let Some(shape) = shape_of(problem) else { return Vec::new() };
        let product = self.cublaslt.product(shape);
        product.and_then(|p| p.algorithms(self.workspace.len() as u64, limit)).unwrap_or_default()
    }

    /// Uses `algorithm` for the problem from now on, if the library takes it: what a file says is checked.
    pub(super) fn choose(&self, problem: &Problem, algorithm: &Algorithm) -> bool {
        let Some(shape) = shape_of(problem) else { return false };
        let Ok(product) = self.cublaslt.product(shape) else { return false };
        let Some(algorithm) = product.accepts(algorithm) else { return false };
        if algorithm.workspace > self.workspace.len() as u64 {
            return false;
        }
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.insert(shape, Some(Prepared { product, algorithm }));
        true
    }

    /// Queues the product; `args` are checked against the problem already.
    #[expect(unsafe_code)]
    pub(super) fn launch(
        &self,
        stream: &Stream,
        problem: &Problem,
        args: &Args<'_>,
    ) -> Result<(), DriverError> {
        let refused = |why: String| DriverError::Invalid(format!("gemm {problem:?}: {why}"));
        if !self.can(problem, class_of(problem.rows)) {
            return Err(refused("a plan for the library, which cannot do it".to_owned()));
        }
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let found = shape_of(problem).and_then(|shape| prepared.get(&shape)?.as_ref());
        let Prepared { product, algorithm } = found.expect("`can` has just prepared it");
        let operands = Operands {
            x: args.x.address(),
            w: args.w.address(),
            bias: args.bias.map_or(0, |bias| bias.address()),
            y: args.y.address(),
            workspace: (self.workspace.address(), self.workspace.len() as u64),
        };
        // SAFETY: `super::check` found lengths, types and alignment as the problem wants them; the workspace is ours.
        unsafe { product.run(stream, algorithm, &operands) }.map_err(|why| refused(why.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::class_of;

    #[test]
    fn classes_hold_all_that_are_not_more_and_are_near() {
        assert_eq!(
            [1, 255, 256, 257, 512, 513, 2000, 2048, 8000].map(class_of),
            [1, 255, 256, 320, 512, 640, 2048, 2048, 8192]
        );
        for rows in 257..20_000 {
            let class = class_of(rows);
            assert!(class >= rows && class * 4 <= rows * 5, "{rows}: {class}");
            assert_eq!(class_of(class), class, "{rows}");
        }
    }
}
