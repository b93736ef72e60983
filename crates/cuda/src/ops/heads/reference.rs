//! What tests judge attention's kernels by: the formulas in float64, one element after the other.

use std::{cmp::Ordering, sync::LazyLock};

use half::bf16;
use models::semantic::QkNormExtent;

use super::{BLOCK_TOKENS, CacheScales, CacheType, Heads};

/// Numbers that look normally distributed, from a seed.
pub struct Normal(pub fastrand::Rng);

impl Normal {
    pub fn new(seed: u64) -> Normal {
        Normal(fastrand::Rng::with_seed(seed))
    }

    pub fn next(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| self.0.f32() - 0.5).sum();
        sum * 1.732
    }

    pub fn bf16s(&mut self, count: usize, scale: f32) -> Vec<bf16> {
        (0..count).map(|_| bf16::from_f32(self.next() * scale)).collect()
    }
}

static E4M3: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|code| decode(code as u8)));

fn decode(code: u8) -> f32 {
    let (exponent, mantissa) = (i32::from((code >> 3) & 15), f32::from(code & 7));
    let value = match (exponent, code & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa / 8.0 * 2f32.powi(-6),
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    };
    if code & 128 != 0 { -value } else { value }
}

/// The value of an e4m3 code.
pub fn e4m3(code: u8) -> f32 {
    E4M3[usize::from(code)]
}

/// The nearest e4m3 code, ties to the even one, saturating.
pub fn to_e4m3(value: f32) -> u8 {
    let sign = if value.is_sign_negative() { 128 } else { 0 };
    let size = value.abs();
    if size.is_nan() {
        return 127;
    }
    let positive = &E4M3[..127];
    let above = positive.partition_point(|code| *code <= size);
    if above == positive.len() {
        return sign | 126;
    }
    let (low, high) = (positive[above - 1], positive[above]);
    let up = match (size - low).partial_cmp(&(high - size)) {
        Some(Ordering::Greater) => true,
        Some(Ordering::Equal) => above % 2 == 0,
        _ => false,
    };
    sign | (above - 1 + usize::from(up)) as u8
}

/// Rounds `value` to the cache's type and appends its bytes.
pub fn store(cache: CacheType, scale: f32, value: f32, to: &mut [u8]) {
    match cache {
        CacheType::Bf16 => to.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
        CacheType::Fp8 => to[0] = to_e4m3(value / scale),
    }
}

/// The value that the cache's bytes stand for.
pub fn load(cache: CacheType, scale: f32, from: &[u8]) -> f32 {
    match cache {
        CacheType::Bf16 => bf16::from_le_bytes([from[0], from[1]]).to_f32(),
        CacheType::Fp8 => e4m3(from[0]) * scale,
    }
}

/// Byte offset of element 0 of a token's key (`kv` 0) or value (1).
pub fn offset(heads: &Heads, slot: usize, kv: usize, kv_head: usize) -> usize {
    let (block, token) = (slot / BLOCK_TOKENS, slot % BLOCK_TOKENS);
    let head = (block * 2 + kv) * heads.kv_heads + kv_head;
    (head * BLOCK_TOKENS + token) * heads.head_dim * heads.cache.bytes()
}

/// What is done to a row of the projection.
#[derive(Clone, Debug)]
pub struct Preparing {
    pub heads: Heads,
    pub rotary_dim: usize,
    pub norm: Option<QkNormExtent>,
    pub q_weight: Vec<f32>,
    pub k_weight: Vec<f32>,
    pub eps: f32,
    /// Two tables.
    pub inv_freq: Vec<f32>,
    pub factors: [f32; 2],
    pub scales: CacheScales,
}

impl Preparing {
    pub fn new(heads: Heads, rotary_dim: usize, norm: Option<QkNormExtent>, seed: u64) -> Self {
        let mut normal = Normal::new(seed);
        let lengths = match norm {
            None => (0, 0),
            Some(QkNormExtent::Head) => (1, 1),
            Some(QkNormExtent::Projection) => (heads.heads, heads.kv_heads),
        };
        let mut weights = |heads_: usize| {
            (0..heads_ * heads.head_dim).map(|_| 1.0 + 0.3 * normal.next()).collect()
        };
        let (q_weight, k_weight) = (weights(lengths.0), weights(lengths.1));
        let half = rotary_dim / 2;
        let table = |theta: f32| {
            (0..half).map(move |i| 1.0 / theta.powf((2 * i) as f32 / rotary_dim as f32))
        };
        let inv_freq = table(10_000.0).chain(table(1e6)).collect();
        let scales = match heads.cache {
            CacheType::Bf16 => CacheScales::default(),
            CacheType::Fp8 => CacheScales { k: 0.031, v: 0.027 },
        };
        let factors = [1.0, 1.19];
        Preparing {
            heads,
            rotary_dim,
            norm,
            q_weight,
            k_weight,
            eps: 1e-6,
            inv_freq,
            factors,
            scales,
        }
    }

    /// Queries, keys and values of one row, unrounded.
    pub fn apply(&self, row: &[bf16], position: i32, regime: usize) -> [Vec<f64>; 3] {
        let Heads { heads, kv_heads, head_dim, .. } = self.heads;
        let row: Vec<f64> = row.iter().map(|x| x.to_f64()).collect();
        let (q, rest) = row.split_at(heads * head_dim);
        let (k, v) = rest.split_at(kv_heads * head_dim);
        let mut q = self.norm(q, &self.q_weight);
        let mut k = self.norm(k, &self.k_weight);
        for head in q.chunks_mut(head_dim).chain(k.chunks_mut(head_dim)) {
            self.rotate(head, position, regime);
        }
        [q, k, v.to_vec()]
    }

    fn norm(&self, x: &[f64], weight: &[f32]) -> Vec<f64> {
        let Some(extent) = self.norm else { return x.to_vec() };
        let width = match extent {
            QkNormExtent::Head => self.heads.head_dim,
            QkNormExtent::Projection => x.len(),
        };
        let normed = x.chunks(width).flat_map(|x| {
            let mean = x.iter().map(|x| x * x).sum::<f64>() / width as f64;
            let inverse = 1.0 / (mean + f64::from(self.eps)).sqrt();
            x.iter().zip(weight).map(move |(x, w)| x * inverse * f64::from(*w))
        });
        normed.collect()
    }

    fn rotate(&self, head: &mut [f64], position: i32, regime: usize) {
        let half = self.rotary_dim / 2;
        for i in 0..half {
            let angle = position as f32 * self.inv_freq[regime * half + i];
            let (sin, cos) = f64::from(angle).sin_cos();
            let factor = f64::from(self.factors[regime]);
            let (a, b) = (head[i], head[i + half]);
            head[i] = (a * cos - b * sin) * factor;
            head[i + half] = (b * cos + a * sin) * factor;
        }
    }
}

/// Failures of a case table: all are told, with where the worst is.
#[derive(Debug, Default)]
pub struct Report {
    failures: Vec<String>,
    cases: usize,
}

impl Report {
    /// Compares element by element: `allowed(i)` is the largest error at `i`.
    pub fn compare(
        &mut self,
        case: &str,
        got: &[f32],
        wanted: &[f64],
        allowed: impl Fn(usize) -> f64,
    ) {
        self.cases += 1;
        assert_eq!(got.len(), wanted.len(), "{case}");
        let error = |i: usize| (f64::from(got[i]) - wanted[i]).abs();
        let bad: Vec<usize> =
            (0..got.len()).filter(|i| error(*i).is_nan() || error(*i) > allowed(*i)).collect();
        let worst = |list: &mut dyn Iterator<Item = usize>| {
            list.max_by(|a, b| (error(*a) / allowed(*a)).total_cmp(&(error(*b) / allowed(*b))))
        };
        if let Some(i) = worst(&mut (0..got.len())) {
            let share = error(i) / allowed(i);
            println!("{case}: worst {share:.3} of allowed at {i}: {} for {:.6}", got[i], wanted[i]);
        }
        if let (Some(first), Some(last)) = (bad.first(), bad.last()) {
            let near: Vec<String> = bad
                .iter()
                .take(6)
                .map(|i| format!("[{i}] {} for {:.5}", got[*i], wanted[*i]))
                .collect();
            self.failures.push(format!(
                "{case}: {} of {} wrong, {first}..={last}: {}",
                bad.len(),
                got.len(),
                near.join(", ")
            ));
        }
    }

    pub fn require(&mut self, case: &str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(format!("{case}: {}", what()));
        }
    }

    pub fn finish(self) {
        let Report { failures, cases } = self;
        let first: Vec<&String> = failures.iter().take(12).collect();
        assert!(
            failures.is_empty(),
            "{} failures in {cases} comparisons: {first:#?}",
            failures.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e4m3_goes_there_and_back() {
        for code in (0..=255u8).filter(|code| code & 127 != 127) {
            assert_eq!(to_e4m3(e4m3(code)), code);
        }
        assert_eq!(e4m3(126), 448.0);
        assert_eq!(to_e4m3(1e9), 126);
        assert_eq!(to_e4m3(-1e9), 254);
        assert_eq!(to_e4m3(17.0), to_e4m3(16.0), "a tie goes to the even code");
        assert_eq!(to_e4m3(19.0), to_e4m3(20.0));
        assert!(e4m3(127).is_nan());
    }
}
