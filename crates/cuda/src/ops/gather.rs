//! Rows of a matrix, picked by a list on the device. See `gather.cu`.

use bytemuck::{Pod, Zeroable};

use super::{Traffic, Unsupported, lengths::Lengths};
use crate::driver::{DriverError, Gpu, Image, Kernel, Shape, Stream, View, ViewMut, image};

static IMAGE: Image = image!("gather");
const THREADS: u32 = 256;
/// Bytes that a thread moves at a time.
const PIECE: usize = 16;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows to pick.
    pub count: usize,
    /// Rows there are.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Bytes of an element.
    pub size: usize,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
}

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a, T> {
    /// `[rows, width]`.
    pub x: View<'a, T>,
    /// `[count]`: the rows, in any order; the caller has checked that they are rows of `x`.
    pub rows: View<'a, i32>,
    /// `[count, width]`.
    pub y: ViewMut<'a, T>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct GatherParams {
    x: u64,
    y: u64,
    rows: u64,
    width: u32,
    unused: u32,
}
const _: () = assert!(size_of::<GatherParams>() == 32);

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    kernel: Kernel,
}

impl Problem {
    /// What it moves.
    pub fn traffic(&self) -> Traffic {
        let bytes = 2 * self.count * self.width * self.size + 4 * self.count;
        Traffic { bytes: bytes as u64, flops: 0 }
    }
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem) -> Result<Plan, Unsupported> {
        let row = problem.width.checked_mul(problem.size);
        match row.is_some_and(|row| row.is_multiple_of(PIECE) && row / PIECE <= u32::MAX as usize)
            && problem.count <= i32::MAX as usize
        {
            true => Ok(Plan { problem: *problem }),
            false => Err(Unsupported {
                operation: "gather",
                seen: format!("{problem:?}"),
                requirement: format!("rows of a multiple of {PIECE} bytes, less than 2^31"),
            }),
        }
    }
}

impl Gather {
    /// Loads it.
    pub fn load(gpu: &Gpu) -> Result<Gather, DriverError> {
        Ok(Gather { kernel: gpu.kernel(&IMAGE, "gather")? })
    }

    /// Queues one launch; none for no rows.
    #[allow(unsafe_code)]
    pub fn launch<T: Pod>(
        &self,
        stream: &Stream,
        plan: &Plan,
        args: Args<'_, T>,
    ) -> Result<(), DriverError> {
        let Problem { count, rows, width, size } = plan.problem;
        let (x, y) = (args.x.address(), args.y.address());
        Lengths::of("gather")
            .at_least("x", args.x.len(), rows * width)
            .at_least("rows", args.rows.len(), count)
            .at_least("y", args.y.len(), count * width)
            .require(size == size_of::<T>(), || format!("elements of {} bytes", size_of::<T>()))
            .require((x | y).is_multiple_of(PIECE as u64), || "x or y is not aligned".to_owned())
            .check()?;
        if count == 0 || width == 0 {
            return Ok(());
        }
        let params = GatherParams {
            x,
            y,
            rows: args.rows.address(),
            width: (width * size / PIECE) as u32,
            unused: 0,
        };
        let shape = Shape { grid: [count as u32, 1, 1], ..Shape::linear(1, THREADS) };
        // SAFETY: the struct mirrors the kernel's; lengths were found in the views above, and the rows are the caller's check.
        unsafe { stream.launch(&self.kernel, shape, &params) }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::{super::parity::*, *};

    #[test]
    fn rows_arrive_in_the_order_of_the_list() {
        let Some(device) = Device::open() else { return };
        let op = Gather::load(&device.gpu).unwrap();
        let mut findings = Findings::default();
        let lists: [(usize, &[i32]); 5] =
            [(1, &[0]), (5, &[]), (9, &[8, 0, 3, 3]), (300, &[299]), (4, &[0, 1, 2, 3])];
        for (rows, list) in lists {
            for width in [8, 64, 1000, 4096, 10_240] {
                findings.case();
                let x: Vec<bf16> = (0..rows * width).map(|at| bf16::from_bits(at as u16)).collect();
                let wanted: Vec<bf16> = list
                    .iter()
                    .flat_map(|row| x[*row as usize * width..][..width].iter().copied())
                    .collect();
                let (x, picked) = (device.put(&x), device.put(list));
                let mut y = device.put(&vec![bf16::NEG_ONE; wanted.len()]);
                let problem = Problem { count: list.len(), rows, width, size: 2 };
                let plan = Plan::new(&problem).unwrap();
                let args = Args { x: x.view(), rows: picked.view(), y: y.view_mut() };
                op.launch(&device.stream, &plan, args).unwrap();
                let case = format!("{problem:?}");
                let seen = y.read(&device, &case, &mut findings);
                let bits = |values: &[bf16]| -> Vec<u16> {
                    values.iter().map(|value| value.to_bits()).collect()
                };
                if bits(&seen) != bits(&wanted) {
                    findings.push(&case, "other rows than those of the list".to_owned());
                }
            }
        }
        findings.finish();
    }

    #[test]
    fn rows_are_whole_pieces() {
        let problem = Problem { count: 1, rows: 1, width: 12, size: 2 };
        assert!(Plan::new(&problem).is_err());
        assert!(Plan::new(&Problem { size: 4, ..problem }).is_ok());
        assert_eq!(problem.traffic().bytes, 2 * 24 + 4);
    }
}
