//! Stored f16 or f32 elements to bf16, in their places. See `convert.cu`.

use bytemuck::{Pod, Zeroable};
use foundation::DType;

use super::{Traffic, lengths::Lengths, placed::Plan};
use crate::driver::{DriverError, Gpu, Image, Kernel, Stream, View, image};

static IMAGE: Image = image!("convert");

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// Element type of `from`: F16 or F32.
    pub dtype: DType,
    /// The elements, dense.
    pub from: View<'a, u8>,
    /// Address of the first element's place, bf16, a multiple of 16.
    pub to: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ConvertParams {
    from: u64,
    to: u64,
    elements: u64,
    run: u64,
    pitch: u64,
}
const _: () = assert!(size_of::<ConvertParams>() == 40);

/// The kernels.
#[derive(Clone, Copy, Debug)]
pub struct Convert {
    f16: Kernel,
    f32: Kernel,
}

impl Convert {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<Convert, DriverError> {
        Ok(Convert {
            f16: gpu.kernel(&IMAGE, "convert_f16")?,
            f32: gpu.kernel(&IMAGE, "convert_f32")?,
        })
    }

    /// Queues one launch.
    ///
    /// # Safety
    /// From `to` on there are as many bf16 as the placement extends over, which nothing else reads or writes until the
    /// launch has run, but for the gaps; `from` is neither changed nor freed until then.
    #[allow(unsafe_code)]
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        plan: &Plan,
        args: Args<'_>,
    ) -> Result<(), DriverError> {
        let placement = plan.placement;
        Lengths::of("convert")
            .at_least("from", args.from.len(), placement.elements as usize * args.dtype.size())
            .require(args.from.address().is_multiple_of(16), || "from is not aligned".to_owned())
            .require(args.to.is_multiple_of(16), || "to is not aligned".to_owned())
            .require(matches!(args.dtype, DType::F16 | DType::F32), || {
                format!("{} is neither f16 nor f32", args.dtype)
            })
            .check()?;
        if plan.is_empty() {
            return Ok(());
        }
        let kernel = if args.dtype == DType::F16 { &self.f16 } else { &self.f32 };
        let params = ConvertParams {
            from: args.from.address(),
            to: args.to,
            elements: placement.elements,
            run: placement.run,
            pitch: placement.pitch,
        };
        // SAFETY: the struct mirrors the kernel's, `from` was found long enough above, `to` is the caller's promise.
        unsafe { stream.launch(kernel, plan.shape(), &params) }
    }
}

/// What it moves.
pub fn traffic(elements: u64, dtype: DType) -> Traffic {
    Traffic { bytes: elements * (dtype.size() as u64 + 2), flops: 0 }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use models::format::dense;

    use super::{
        super::{parity::*, placed::Placement},
        *,
    };

    const EXACT: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };

    /// Numbers of every kind: around the rounding boundaries, beyond what f16 and bf16 hold, below their least, infinite.
    fn numbers(rng: &mut fastrand::Rng, count: usize) -> Vec<f32> {
        let odd =
            [0.0, -0.0, 1.0, 65504.0, 65520.0, 1e-7, 6e-8, 3.4e38, f32::INFINITY, 1.003_906_3];
        let random = |rng: &mut fastrand::Rng| (rng.f32() - 0.5) * 2f32.powi(rng.i32(-20..20));
        (0..count).map(|i| odd.get(i).copied().unwrap_or_else(|| random(rng))).collect()
    }

    #[test]
    fn stored_numbers_become_bf16_in_their_places() {
        let Some(device) = Device::open() else { return };
        let op = Convert::load(&device.gpu).unwrap();
        let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(3));
        let placements = [(0, 8, 8), (8, 8, 8), (4096, 4096, 4096), (640, 64, 128), (80, 8, 24)];
        for (elements, run, pitch) in placements {
            for dtype in [DType::F16, DType::F32] {
                findings.case();
                let placement = Placement { elements, run, pitch };
                let case = format!("{placement:?} {dtype}");
                let values = numbers(&mut rng, elements as usize);
                let mut stored = vec![0; elements as usize * dtype.size()];
                dense::quantize(dtype, &values, &mut stored);
                let from = device.put(&stored);
                let before = vec![bf16::NEG_ONE; placement.extent() as usize];
                let mut to = device.put(&before);
                let args = Args { dtype, from: from.view(), to: to.view_mut().address() };
                let plan = Plan::new(&placement).unwrap();
                // SAFETY: the guarded buffer is as long as the placement extends; nothing else uses it.
                #[allow(unsafe_code)]
                unsafe {
                    op.launch(&device.stream, &plan, args).unwrap()
                };
                let mut wanted = before;
                for i in 0..elements {
                    let value = match dtype {
                        DType::F16 => f16::from_f32(values[i as usize]).to_f32(),
                        _ => values[i as usize],
                    };
                    wanted[(i / run * pitch + i % run) as usize] = bf16::from_f32(value);
                }
                let seen = to.read(&device, &case, &mut findings);
                findings.compare(&case, widen(&seen), &widen(&wanted), EXACT);
            }
        }
        findings.finish();
    }
}
