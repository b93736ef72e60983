//! What parity tests share: buffers with sentinels around them, made-up values, and a record of what differs.

use std::{fmt::Write as _, sync::Arc};

use bytemuck::Pod;
use half::bf16;

use super::rows::Handover;
use crate::driver::{Buffer, Gpu, Stream, View, ViewMut};

/// Elements before and behind each buffer that nobody may write.
const MARGIN: usize = 64;
/// What the margins hold, byte by byte.
const SENTINEL: u8 = 0xa5;
/// Failing cases that are told in full.
const TOLD: usize = 12;

/// The GPU and one stream on it.
pub(crate) struct Device {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) stream: Stream,
}

impl Device {
    /// The first GPU, or `None` with a line that says so.
    pub(crate) fn open() -> Option<Device> {
        let gpu = crate::testing::gpu()?;
        let stream = Stream::new(&gpu).unwrap();
        Some(Device { gpu, stream })
    }

    /// A guarded copy of `values`.
    pub(crate) fn put<T: Pod>(&self, values: &[T]) -> Guarded<T> {
        let mut buffer = self.gpu.alloc::<T>(values.len() + 2 * MARGIN).unwrap();
        let guard: T = bytemuck::pod_read_unaligned(&[SENTINEL; 256][..size_of::<T>()]);
        let guard = [guard; MARGIN];
        let all = [&guard, values, &guard].concat();
        self.stream.upload(&all, buffer.view_mut()).unwrap();
        Guarded { buffer, len: values.len() }
    }
}

/// Device memory with sentinels around it.
pub(crate) struct Guarded<T: Pod> {
    buffer: Buffer<T>,
    len: usize,
}

impl<T: Pod> Guarded<T> {
    pub(crate) fn view(&self) -> View<'_, T> {
        self.buffer.view().slice(MARGIN..MARGIN + self.len)
    }

    pub(crate) fn view_mut(&mut self) -> ViewMut<'_, T> {
        self.buffer.view_mut().slice(MARGIN..MARGIN + self.len)
    }

    /// What it holds now; a finding where a sentinel has changed.
    pub(crate) fn read(&self, device: &Device, case: &str, findings: &mut Findings) -> Vec<T> {
        let all = device.stream.read(self.buffer.view()).unwrap();
        let margins = [&all[..MARGIN], &all[MARGIN + self.len..]];
        let bytes: &[&[u8]] = &margins.map(|margin| bytemuck::cast_slice(margin));
        for (side, bytes) in ["before", "behind"].iter().zip(bytes) {
            if let Some(at) = bytes.iter().position(|byte| *byte != SENTINEL) {
                findings.push(case, format!("wrote {side} the buffer, at byte {at} of the margin"));
            }
        }
        all[MARGIN..MARGIN + self.len].to_vec()
    }
}

/// How far a value may lie from the wanted one.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) relative: f64,
    pub(crate) absolute: f64,
}

impl Tolerance {
    /// One unit in the last place of bf16: what was rounded once, after arithmetic in f32.
    pub(crate) const BF16: Tolerance = Tolerance { relative: 1.0 / 128.0, absolute: 1e-30 };
    /// Arithmetic in f32.
    pub(crate) const F32: Tolerance = Tolerance { relative: 2e-6, absolute: 1e-30 };
}

/// Everything that differed in a test.
#[derive(Default)]
pub(crate) struct Findings {
    cases: usize,
    failures: usize,
    text: String,
}

impl Findings {
    pub(crate) fn case(&mut self) {
        self.cases += 1;
    }

    pub(crate) fn push(&mut self, case: &str, finding: String) {
        self.failures += 1;
        if self.failures <= TOLD {
            writeln!(self.text, "  {case}: {finding}").unwrap();
        }
    }

    /// Compares value by value. What is no number must be the same kind of no number.
    pub(crate) fn compare(
        &mut self,
        case: &str,
        seen: impl IntoIterator<Item = f64>,
        wanted: &[f64],
        tolerance: Tolerance,
    ) {
        let seen: Vec<f64> = seen.into_iter().collect();
        if seen.len() != wanted.len() {
            return self.push(case, format!("{} values, {} wanted", seen.len(), wanted.len()));
        }
        let excess = |(seen, wanted): (&f64, &f64)| match () {
            () if wanted.is_nan() && seen.is_nan() || seen == wanted => 0.0,
            () if !wanted.is_finite() || !seen.is_finite() => f64::INFINITY,
            () => (seen - wanted).abs() / (tolerance.absolute + tolerance.relative * wanted.abs()),
        };
        let errors: Vec<f64> = seen.iter().zip(wanted).map(excess).collect();
        let wrong = errors.iter().filter(|error| **error > 1.0).count();
        if wrong == 0 {
            return;
        }
        let first = errors.iter().position(|error| *error > 1.0).unwrap();
        let worst = (0..errors.len()).max_by(|a, b| errors[*a].total_cmp(&errors[*b])).unwrap();
        let around = first.saturating_sub(2)..(first + 4).min(seen.len());
        self.push(
            case,
            format!(
                "{wrong} of {} wrong; first at {first}: {:e}, wanted {:e}; worst at {worst}: {:e}, wanted {:e} ({:.1} x \
                 tolerance); around the first {:?}, wanted {:?}",
                seen.len(),
                seen[first],
                wanted[first],
                seen[worst],
                wanted[worst],
                errors[worst],
                &seen[around.clone()],
                &wanted[around],
            ),
        );
    }

    /// Panics with everything that was found.
    pub(crate) fn finish(self) {
        let Findings { cases, failures, text } = self;
        assert!(failures == 0, "{failures} findings in {cases} cases:\n{text}");
    }
}

/// Values with outliers: mostly below 1, one in a hundred up to a thousand, some exact zeros.
pub(crate) fn values(rng: &mut fastrand::Rng, len: usize) -> Vec<f32> {
    let one = |rng: &mut fastrand::Rng| match rng.u32(0..100) {
        0 => (rng.f32() - 0.5) * 2000.0,
        1 => 0.0,
        _ => (rng.f32() - 0.5) * 2.0,
    };
    (0..len).map(|_| one(rng)).collect()
}

/// The same, rounded to bf16.
pub(crate) fn halves(rng: &mut fastrand::Rng, len: usize) -> Vec<bf16> {
    values(rng, len).into_iter().map(bf16::from_f32).collect()
}

pub(crate) fn widen(values: &[bf16]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

pub(crate) fn widen32(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// `row * rsqrt(mean(row^2) + eps) * weight`.
pub(crate) fn rms_norm(row: &[f64], weight: &[f32], eps: f32) -> Vec<f64> {
    let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
    let inverse = 1.0 / (mean + f64::from(eps)).sqrt();
    row.iter().zip(weight).map(|(value, weight)| value * inverse * f64::from(*weight)).collect()
}

/// What was handed on, against the rows `wanted` of the residual stream.
#[allow(clippy::too_many_arguments)]
pub(crate) fn check_next(
    device: &Device,
    case: &str,
    wanted: &[Vec<f64>],
    weight: &[f32],
    eps: f32,
    handover: Handover,
    stride: usize,
    x: &Guarded<bf16>,
    partials: &Guarded<f32>,
    findings: &mut Findings,
) {
    let (x, partials) = (x.read(device, case, findings), partials.read(device, case, findings));
    let handed: Vec<f64> = wanted
        .iter()
        .flat_map(|row| match handover {
            Handover::Nothing => vec![1.0; row.len()],
            Handover::Plain => row.clone(),
            Handover::Normed => rms_norm(row, weight, eps),
            Handover::Gained => row.iter().zip(weight).map(|(v, w)| v * f64::from(*w)).collect(),
        })
        .collect();
    findings.compare(&format!("{case} x"), widen(&x), &handed, Tolerance::BF16);
    let mut sums = vec![7.0; partials.len()];
    if handover == Handover::Gained {
        for (row, values) in wanted.iter().enumerate() {
            sums[row * stride] = values.iter().map(|v| v * v).sum();
        }
    }
    findings.compare(&format!("{case} sums"), widen32(&partials), &sums, Tolerance::F32);
}
