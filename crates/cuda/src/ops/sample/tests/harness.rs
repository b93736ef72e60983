//! Rows through the kernels, and their outputs judged by the reference.

use foundation::{SlotId, TokenId};
use runtime::{
    batch::{OutputKind, OutputRow, RowOutput, SequenceRun, SlotReset, StepBatch, TokenLogprobs},
    sampling::{RowSampling, SamplingParams, TokenCounts, philox, sample, score, top::Candidate},
};

use super::{
    super::{super::parity::*, *},
    cases::Shape,
};
use crate::ops::sample::{layout::SEEN, pack::Copies};

/// How far from a border the number of a draw may lie for both sides of it to be accepted, as a part of all weight.
const BORDER: f64 = 1e-5;

/// A row of logits and what is made of it.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) logits: Vec<f32>,
    pub(super) kind: OutputKind,
    pub(super) slot: u32,
}

impl Case {
    pub(super) fn of(name: String, logits: Vec<f32>, kind: OutputKind) -> Case {
        Case { name, logits, kind, slot: 0 }
    }

    pub(super) fn new(
        vocab: usize,
        shape: Shape,
        row: RowSampling,
        rng: &mut fastrand::Rng,
    ) -> Case {
        let SamplingParams { temperature, top_k, top_p, min_p, .. } = *row.params;
        let name = format!("{vocab} {shape:?} t {temperature} k {top_k} p {top_p} m {min_p}");
        Case::of(name, shape.logits(vocab, rng), OutputKind::Sample(row))
    }
}

/// A step with one run of one row for each case.
pub(super) fn step(cases: &[Case]) -> StepBatch {
    let run = |(row, case): (u32, &Case)| SequenceRun {
        rows: row..row + 1,
        cached: 0,
        tables: Vec::new(),
        slot: SlotId(case.slot),
        adapter: None,
        regime: 0,
        rewind: 0,
    };
    let output = |(row, case): (u32, &Case)| OutputRow { row, kind: case.kind.clone() };
    StepBatch {
        runs: (0..).zip(cases).map(run).collect(),
        outputs: (0..).zip(cases).map(output).collect(),
        ..StepBatch::default()
    }
}

/// The kernels over rows of one vocabulary, with counts of some slots on both sides.
pub(super) struct Bench<'a> {
    device: &'a Device,
    ops: Sample,
    vocab: usize,
    stride: usize,
    counts: Guarded<u32>,
    host_counts: Vec<TokenCounts>,
    rows: usize,
    /// Draws that rounding decided.
    pub(super) borders: usize,
}

impl<'a> Bench<'a> {
    pub(super) fn new(device: &'a Device, vocab: usize, slots: usize) -> Bench<'a> {
        let stride = vocab.next_multiple_of(8);
        Bench {
            device,
            ops: Sample::load(&device.gpu).unwrap(),
            vocab,
            stride,
            // Whatever the memory held before a reset must not matter.
            counts: device.put(&vec![0x1234_5678u32; slots.max(1) * stride]),
            host_counts: vec![TokenCounts::default(); slots],
            rows: 0,
            borders: 0,
        }
    }

    #[allow(clippy::print_stdout)]
    pub(super) fn report(&self) {
        println!(
            "vocabulary {}: {} rows, {} decided by rounding",
            self.vocab, self.rows, self.borders
        );
    }

    pub(super) fn counts(&self, case: &Case) -> Option<&TokenCounts> {
        self.host_counts.get(case.slot as usize)
    }

    pub(super) fn run(
        &mut self,
        cases: &[Case],
        bucket: usize,
        capacity: Option<u32>,
        findings: &mut Findings,
    ) -> Vec<RowOutput> {
        let packed = pack(&step(cases), 0..cases.len(), self.vocab);
        let stages = Stages { counts: false, scans: true, ..packed.stages };
        self.launch(cases, &packed, stages, bucket, capacity, 0, findings)
    }

    pub(super) fn run_and_count(
        &mut self,
        cases: &[Case],
        findings: &mut Findings,
    ) -> Vec<RowOutput> {
        let packed = pack(&step(cases), 0..cases.len(), self.vocab);
        assert!(packed.stages.counts);
        self.launch(cases, &packed, packed.stages, cases.len(), None, 0, findings)
    }

    pub(super) fn run_by_parts(
        &mut self,
        cases: &[Case],
        parts: usize,
        findings: &mut Findings,
    ) -> Vec<RowOutput> {
        let packed = pack(&step(cases), 0..cases.len(), self.vocab);
        assert_eq!(packed.stages, Stages::default());
        self.launch(cases, &packed, packed.stages, cases.len(), None, parts, findings)
    }

    #[allow(clippy::too_many_arguments)]
    fn launch(
        &mut self,
        cases: &[Case],
        packed: &Packed,
        stages: Stages,
        bucket: usize,
        capacity: Option<u32>,
        parts: usize,
        findings: &mut Findings,
    ) -> Vec<RowOutput> {
        let (device, name) = (self.device, format!("{} rows of {}", cases.len(), self.vocab));
        self.rows += cases.len();
        let problem = Problem { rows: bucket, vocab: self.vocab, stride: self.stride };
        let mut plan = Plan::new(&problem, device.gpu.limits()).unwrap();
        plan.capacity = capacity.unwrap_or(plan.capacity);
        // Behind the vocabulary, and in rows that are padding, lie numbers that would win.
        let mut logits = vec![f32::INFINITY; bucket * self.stride];
        for (row, case) in logits.chunks_mut(self.stride).zip(cases) {
            row[..self.vocab].copy_from_slice(&case.logits);
        }
        let mut rows = packed.rows.clone();
        rows.resize(bucket, SampleRow { kind: 1, ..SampleRow::default() });
        let keys: Vec<u64> = cases.iter().flat_map(|case| parts_of(&case.logits, parts)).collect();
        let (rows, count) = (device.put(&rows), device.put(&[cases.len() as u32]));
        let (bias, keys) = (device.put(&packed.bias), device.put(&keys));
        let [bans, masks] = [&packed.bans, &packed.masks].map(|list| device.put(list));
        let mut logits = device.put(&logits);
        let mut scratch = device.put(&vec![0u8; plan.scratch.bytes as usize + 256]);
        let shift = (256 - (scratch.view().address() % 256) as usize) % 256;
        let bytes = plan.scratch.bytes as usize;
        let mut sampled = device.put(&vec![-7i32; bucket]);
        let mut answers = device.put(&vec![Answer::default(); bucket]);
        let mut top_tokens = device.put(&vec![0u32; bucket * MOST_TOP]);
        let mut top_logprobs = device.put(&vec![0.0f32; bucket * MOST_TOP]);
        let args = Args {
            rows: rows.view(),
            row_count: count.view(),
            logits: logits.view_mut(),
            bias: bias.view(),
            bans: bans.view(),
            masks: masks.view(),
            counts: self.counts.view_mut(),
            argmax: (parts > 0).then(|| (keys.view(), parts)),
            scratch: scratch.view_mut().slice(shift..shift + bytes),
            sampled: sampled.view_mut(),
            answers: answers.view_mut(),
            top_tokens: top_tokens.view_mut(),
            top_logprobs: top_logprobs.view_mut(),
        };
        self.ops.launch(&device.stream, &plan, stages, args).unwrap();
        let logits = logits.read(device, &name, findings);
        let sampled = sampled.read(device, &name, findings);
        let answers = answers.read(device, &name, findings);
        let top_tokens = top_tokens.read(device, &name, findings);
        let top_logprobs = top_logprobs.read(device, &name, findings);
        let scratch = scratch.read(device, &name, findings);
        if scratch[shift..shift + 4 * bucket].iter().any(|byte| *byte != 0) {
            findings.push(&name, "tickets were left behind".to_owned());
        }
        if sampled[cases.len()..].iter().any(|token| *token != -7) {
            findings.push(&name, format!("padding was sampled: {:?}", &sampled[cases.len()..]));
        }
        let output = |(i, plan): (usize, &pack::RowPlan)| {
            let tops = i * MOST_TOP..(i + 1) * MOST_TOP;
            let row = &logits[i * self.stride..i * self.stride + self.vocab];
            let values = if plan.copies == Copies::Nothing { &[] } else { row };
            let answer = &answers[i];
            if answer.token != sampled[i] {
                let told = format!("sampled {}, but answered {answer:?}", sampled[i]);
                findings.push(&cases[i].name, told);
            }
            plan.answer(answer, &top_tokens[tops.clone()], &top_logprobs[tops], values)
        };
        packed.plans.iter().enumerate().map(output).collect()
    }

    pub(super) fn reset_all(&mut self, rng: &mut fastrand::Rng) {
        let slots: Vec<usize> = (0..self.host_counts.len()).collect();
        self.reset(&slots, rng);
    }

    pub(super) fn reset_one(&mut self, slot: usize, rng: &mut fastrand::Rng) {
        self.reset(&[slot], rng);
    }

    fn reset(&mut self, slots: &[usize], rng: &mut fastrand::Rng) {
        let mut tokens = |most: usize| -> std::sync::Arc<[TokenId]> {
            let token = |rng: &mut fastrand::Rng| TokenId(rng.u32(0..self.vocab as u32));
            (0..rng.usize(0..=most)).map(|_| token(rng)).collect()
        };
        let resets: Vec<SlotReset> = slots
            .iter()
            .map(|slot| SlotReset {
                slot: SlotId(*slot as u32),
                prompt: tokens(1500),
                generated: tokens(700),
            })
            .collect();
        for reset in &resets {
            let slot = reset.slot.0 as usize;
            self.host_counts[slot] = TokenCounts::new(&reset.prompt, &reset.generated);
        }
        let batch = StepBatch { slot_resets: resets, ..StepBatch::default() };
        let packed = pack_resets(&batch, self.host_counts.len());
        let resets = self.device.put(&packed.resets);
        let tokens = self.device.put(&packed.tokens);
        let counts = self.counts.view_mut();
        let stream = &self.device.stream;
        self.ops.reset_counts(stream, resets.view(), tokens.view(), counts, self.stride).unwrap();
    }

    /// Counts the outputs on the host as the device does.
    pub(super) fn count(&mut self, cases: &[Case], outputs: &[RowOutput]) {
        for (case, output) in cases.iter().zip(outputs) {
            if let RowOutput::Sampled { token, .. } = output {
                self.host_counts[case.slot as usize].add(*token);
            }
        }
    }

    pub(super) fn check_counts(&self, case: &str, findings: &mut Findings) {
        let seen = self.counts.read(self.device, case, findings);
        for (slot, counts) in self.host_counts.iter().enumerate() {
            let mut wanted = vec![0u32; self.stride];
            for (token, generated) in counts.iter() {
                wanted[token.0 as usize] = SEEN | generated;
            }
            let seen = &seen[slot * self.stride..(slot + 1) * self.stride];
            if let Some(at) = (0..self.stride).find(|at| seen[*at] != wanted[*at]) {
                let told = format!(
                    "slot {slot} counts {:x} for token {at}, {:x} wanted",
                    seen[at], wanted[at]
                );
                findings.push(case, told);
            }
        }
    }
}

/// Keys of the likeliest token of each of `parts` parts, as a product would hand them over.
fn parts_of(logits: &[f32], parts: usize) -> Vec<u64> {
    let key = |(token, logit): (u32, &f32)| {
        let bits = (logit + 0.0).to_bits();
        let ordered = match logit.is_nan() {
            true => u32::MAX,
            false if bits >> 31 == 1 => !bits,
            false => bits | 1 << 31,
        };
        u64::from(ordered) << 32 | u64::from(!token)
    };
    let part = logits.len().div_ceil(parts.max(1));
    let ends = (0..parts).map(|i| (i * part).min(logits.len())..((i + 1) * part).min(logits.len()));
    ends.map(|range| {
        let tokens = range.start as u32..;
        tokens.zip(&logits[range]).map(key).max().unwrap_or(0)
    })
    .collect()
}

/// Compares an output with what the reference gives. Whether rounding decided the draw.
pub(super) fn judge(
    case: &Case,
    counts: Option<&TokenCounts>,
    output: &RowOutput,
    findings: &mut Findings,
) -> bool {
    let mut edited = case.logits.clone();
    let wanted = match &case.kind {
        OutputKind::Sample(row) => {
            let counts = counts.filter(|_| row.params.needs_counts());
            RowOutput::from(sample(&mut edited, row, counts))
        }
        OutputKind::Score { target, top } => match score(&case.logits, *target, *top) {
            Ok(logprobs) => RowOutput::Scored(logprobs),
            Err(error) => RowOutput::Failed(error.to_string()),
        },
        _ => unreachable!("cases sample or score"),
    };
    match (output, &wanted) {
        (RowOutput::Failed(seen), RowOutput::Failed(wanted)) if seen == wanted => {}
        (RowOutput::Scored(seen), RowOutput::Scored(wanted)) => {
            compare_logprobs(case, seen, wanted, findings);
        }
        (
            RowOutput::Sampled { token, logprobs },
            RowOutput::Sampled { token: wanted, logprobs: wanted_logprobs },
        ) => {
            let differs = token != wanted;
            if differs && !on_border(case, &edited, *token) {
                findings.push(&case.name, format!("sampled {token}, {wanted} wanted"));
            }
            let top = wanted_logprobs.as_ref().map_or(0, |logprobs| logprobs.top.len() as u32);
            match (logprobs, wanted_logprobs) {
                (None, None) => {}
                (Some(seen), Some(_)) => {
                    let wanted = score(&case.logits, *token, top).unwrap();
                    compare_logprobs(case, seen, &wanted, findings);
                }
                _ => findings.push(&case.name, format!("log-probabilities {logprobs:?}")),
            }
            return differs;
        }
        _ => findings.push(&case.name, format!("{output:?}, wanted {wanted:?}")),
    }
    false
}

fn compare_logprobs(
    case: &Case,
    seen: &TokenLogprobs,
    wanted: &TokenLogprobs,
    findings: &mut Findings,
) {
    let close = |a: f32, b: f32| a == b || (a - b).abs() <= 2e-6 * (1.0 + b.abs());
    let ids = |logprobs: &TokenLogprobs| -> Vec<u32> {
        logprobs.top.iter().map(|(token, _)| token.0).collect()
    };
    let same = (seen.token, seen.rank) == (wanted.token, wanted.rank) && ids(seen) == ids(wanted);
    let near = seen.top.iter().zip(&wanted.top).all(|(a, b)| close(a.1, b.1));
    if !same || !near || !close(seen.logprob, wanted.logprob) {
        let brief = |l: &TokenLogprobs| {
            let top: Vec<_> = l.top.iter().take(4).map(|(t, p)| (t.0, *p)).collect();
            format!("{} {} rank {} of {} {top:?}", l.token, l.logprob, l.rank, l.top.len())
        };
        findings.push(&case.name, format!("{}, wanted {}", brief(seen), brief(wanted)));
    }
}

/// Whether rounding may decide for `token`: whether its share of the weight lies within a hair of the drawn number.
fn on_border(case: &Case, edited: &[f32], token: TokenId) -> bool {
    let OutputKind::Sample(row) = &case.kind else { return false };
    let params = &row.params;
    if params.temperature <= 0.0 {
        return false;
    }
    let max = edited.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight =
        |logit: f32| ((f64::from(logit) - f64::from(max)) / f64::from(params.temperature)).exp();
    let all = (0u32..).zip(edited).map(|(t, l)| Candidate { token: TokenId(t), logit: *l });
    let mut all: Vec<Candidate> = all.filter(|c| c.logit > f32::NEG_INFINITY).collect();
    let by_id = (params.top_k == 0 || params.top_k as usize >= edited.len()) && params.top_p >= 1.0;
    if !by_id {
        all.sort_unstable_by(|a, b| b.cmp(a));
        if params.top_k > 0 {
            all.truncate(params.top_k as usize);
        }
        let total: f64 = all.iter().map(|c| weight(c.logit)).sum();
        let mut sum = 0.0;
        let reached = all.iter().position(|c| {
            sum += weight(c.logit);
            sum >= f64::from(params.top_p) * total
        });
        all.truncate(reached.map_or(all.len(), |last| last + 1));
    }
    all.retain(|c| weight(c.logit) >= f64::from(params.min_p));
    let total: f64 = all.iter().map(|c| weight(c.logit)).sum();
    let number = philox::uniform(params.seed, row.draw);
    let mut before = 0.0;
    for candidate in &all {
        let share = weight(candidate.logit) / total;
        if candidate.token == token {
            return number >= before - BORDER && number < before + share + BORDER;
        }
        before += share;
    }
    // A token that rounding let into the nucleus, at its very end.
    number > 1.0 - BORDER
}
