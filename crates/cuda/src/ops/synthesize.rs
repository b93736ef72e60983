//! Made-up weights, made in their places. See `synthesize.cu`; the host's twin is [`models::synthetic::fill`].

use bytemuck::{Pod, Zeroable};
use foundation::DType;

use super::{Traffic, lengths::Lengths, placed::Plan};
use crate::driver::{DriverError, Gpu, Image, Kernel, Stream, image};

static IMAGE: Image = image!("synthesize");

/// What one launch makes.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    /// Seed of the weight.
    pub seed: u64,
    /// Index of the first element.
    pub first: u64,
    /// Standard deviation.
    pub std: f32,
    /// Mean.
    pub mean: f32,
    /// Element type of the checkpoint that the weight stands in for: BF16, F16 or F32.
    pub dtype: DType,
    /// Address of the first element's place, bf16, a multiple of 16.
    pub to: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct SynthesizeParams {
    to: u64,
    seed: u64,
    first: u64,
    elements: u64,
    run: u64,
    pitch: u64,
    std: f32,
    mean: f32,
}
const _: () = assert!(size_of::<SynthesizeParams>() == 56);

/// The kernels.
#[derive(Clone, Copy, Debug)]
pub struct Synthesize {
    f16: Kernel,
    f32: Kernel,
}

impl Synthesize {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<Synthesize, DriverError> {
        Ok(Synthesize {
            f16: gpu.kernel(&IMAGE, "synthesize_f16")?,
            f32: gpu.kernel(&IMAGE, "synthesize_f32")?,
        })
    }

    /// Queues one launch.
    ///
    /// # Safety
    /// From `to` on there are as many bf16 as the placement extends over, which nothing else reads or writes until the
    /// launch has run, but for the gaps.
    #[allow(unsafe_code)]
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        plan: &Plan,
        args: Args,
    ) -> Result<(), DriverError> {
        Lengths::of("synthesize")
            .require(args.to.is_multiple_of(16), || "to is not aligned".to_owned())
            .require(matches!(args.dtype, DType::BF16 | DType::F16 | DType::F32), || {
                format!("{} is none of bf16, f16 and f32", args.dtype)
            })
            .check()?;
        if plan.is_empty() {
            return Ok(());
        }
        let Args { seed, first, std, mean, dtype, to } = args;
        let placement = plan.placement;
        let params = SynthesizeParams {
            to,
            seed,
            first,
            elements: placement.elements,
            run: placement.run,
            pitch: placement.pitch,
            std,
            mean,
        };
        // bf16 is what is stored in the end: rounding to it first changes nothing.
        let kernel = if dtype == DType::F16 { &self.f16 } else { &self.f32 };
        // SAFETY: the struct mirrors the kernel's, the place is the caller's promise.
        unsafe { stream.launch(kernel, plan.shape(), &params) }
    }
}

/// What it moves and computes.
pub fn traffic(elements: u64) -> Traffic {
    Traffic { bytes: 2 * elements, flops: 3 * elements }
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use models::{format::dense, synthetic::fill};

    use super::{
        super::{parity::*, placed::Placement},
        *,
    };

    const EXACT: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };

    /// What the host makes up, as the device keeps it.
    fn made_up(args: &Args, count: u64) -> Vec<bf16> {
        let mut stored = vec![0; count as usize * args.dtype.size()];
        fill(args.seed, args.first, args.std, args.mean, args.dtype, &mut stored);
        let mut values = vec![0.0; count as usize];
        dense::dequantize(args.dtype, &stored, &mut values);
        values.into_iter().map(bf16::from_f32).collect()
    }

    #[test]
    fn the_device_makes_the_values_of_the_host() {
        let Some(device) = Device::open() else { return };
        let op = Synthesize::load(&device.gpu).unwrap();
        let mut findings = Findings::default();
        let placements = [
            (0, 8, 8),
            (8, 8, 8),
            (1 << 20, 1 << 20, 1 << 20),
            (3000, 3000, 3000),
            (6144, 512, 1024),
        ];
        let kinds = [(0.02, 0.0), (0.05, 1.0), (1e-5, 0.0), (300.0, -7.0)];
        for (elements, run, pitch) in placements {
            for dtype in [DType::BF16, DType::F16, DType::F32] {
                for ((std, mean), first) in kinds.into_iter().zip([0, 8, 1 << 33, 123_456]) {
                    findings.case();
                    let placement = Placement { elements, run, pitch };
                    let before = vec![bf16::NEG_ONE; placement.extent() as usize];
                    let mut to = device.put(&before);
                    let seed = 0x1234_5678_9abc_def0 ^ elements;
                    let args = Args { seed, first, std, mean, dtype, to: to.view_mut().address() };
                    let plan = Plan::new(&placement).unwrap();
                    // SAFETY: the guarded buffer is as long as the placement extends; nothing else uses it.
                    #[allow(unsafe_code)]
                    unsafe {
                        op.launch(&device.stream, &plan, args).unwrap()
                    };
                    let mut wanted = before;
                    for (value, i) in made_up(&args, elements).into_iter().zip(0..) {
                        wanted[(i / run * pitch + i % run) as usize] = value;
                    }
                    let case = format!("{placement:?} {dtype} {std} {mean} from {first}");
                    let seen = to.read(&device, &case, &mut findings);
                    findings.compare(&case, widen(&seen), &widen(&wanted), EXACT);
                }
            }
        }
        findings.finish();
    }
}
