//! Times of decode attention as a step sees it: launch after launch, each over a cache that has left the second-level cache.
//! `cargo test -p cuda --release timings -- --ignored --nocapture` prints one line a case.

use std::fmt::Write as _;

use super::*;
use crate::{
    driver::{Event, Graph},
    ops::{heads::reference::Normal, qkv_prepare},
    testing,
};

/// What streams of this GPU reach when they only read.
const READ_CEILING: f64 = 4.70e12;
/// Launches in a graph.
const LAUNCHES: usize = 120;
/// Arenas take turns until they are this large together.
const ROTATED_BYTES: usize = 1 << 31;

#[derive(Clone, Copy, Debug)]
enum Way {
    /// Attention alone.
    Alone,
    /// Preparation, then attention.
    Prepared,
    /// Both in one launch.
    Fused,
    /// The same, merged through device memory.
    FusedApart,
    /// The same, with two blocks a multiprocessor.
    FusedWide,
}

struct Bench {
    stream: Stream,
    attention: AttentionDecode,
    prepare: qkv_prepare::QkvPrepare,
    /// Random bytes that arenas are filled with.
    pattern: Buffer<u8>,
}

impl Bench {
    fn new(gpu: &Arc<Gpu>) -> Bench {
        let stream = Stream::new(gpu).unwrap();
        let mut normal = Normal::new(1);
        let values = normal.bf16s(4 << 20, 1.0);
        let mut pattern = gpu.alloc::<u8>(8 << 20).unwrap();
        // No byte is the e4m3 code of NaN: the pattern is numbers in either type.
        let numbers = |byte: &u8| if byte & 127 == 127 { byte - 1 } else { *byte };
        let bytes: Vec<u8> = bytemuck::cast_slice::<_, u8>(&values).iter().map(numbers).collect();
        stream.upload(&bytes, pattern.view_mut()).unwrap();
        let attention = AttentionDecode::load(gpu).unwrap();
        let prepare = qkv_prepare::QkvPrepare::load(gpu).unwrap();
        Bench { stream, attention, prepare, pattern }
    }

    fn arena(&self, bytes: usize) -> Buffer<u8> {
        let mut arena = self.stream.gpu().alloc::<u8>(bytes).unwrap();
        for from in (0..bytes).step_by(self.pattern.len()) {
            let len = self.pattern.len().min(bytes - from);
            let to = arena.view_mut().slice(from..from + len);
            self.stream.copy(self.pattern.view().slice(0..len), to).unwrap();
        }
        arena
    }

    #[allow(clippy::print_stdout)]
    fn time(&self, heads: Heads, sequences: usize, tokens: usize, way: Way) {
        let blocks = tokens.div_ceil(BLOCK_TOKENS);
        let preparation = Preparation { rotary_dim: heads.head_dim, norm: true };
        let problem = Problem {
            heads,
            sequences,
            queries: 1,
            max_blocks: blocks,
            window: None,
            scale: 0.088,
            softcap: None,
            invariant: false,
            preparation: (!matches!(way, Way::Alone | Way::Prepared)).then_some(preparation),
        };
        let gpu = self.stream.gpu();
        let mut plan = Plan::new(&problem, gpu.limits()).unwrap();
        match way {
            Way::FusedApart => plan.cutting.cluster = 1,
            Way::FusedWide => {
                plan.cutting = Cutting { columns: 2 * 132 / plan.units, cluster: 1, ..plan.cutting }
            }
            _ => {}
        }
        let prepare = qkv_prepare::Problem {
            rows: sequences,
            heads,
            rotary_dim: heads.head_dim,
            norm: Some(models::semantic::QkNormExtent::Head),
        };
        let prepare = qkv_prepare::Plan::new(&prepare, gpu.limits()).unwrap();
        let arena_bytes = sequences * blocks * heads.block_bytes();
        let count = (ROTATED_BYTES / arena_bytes).clamp(2, 48);
        let mut arenas: Vec<Buffer<u8>> = (0..count).map(|_| self.arena(arena_bytes)).collect();
        let mut data = Data::new(&self.stream, &plan, heads, sequences, tokens);
        let graph = Graph::capture(&self.stream, |stream| {
            (0..LAUNCHES).try_for_each(|i| {
                let arena = &mut arenas[i % count];
                if matches!(way, Way::Prepared) {
                    data.prepare(stream, &self.prepare, &prepare, arena)?;
                }
                data.attend(stream, &self.attention, &plan, arena, way)
            })
        });
        let us = self.replay(&graph.unwrap());
        let bytes = traffic(&problem, sequences * tokens).bytes as f64;
        let floor = bytes / READ_CEILING * 1e6;
        let mut line = String::new();
        let _ = write!(line, "H{} Hk{} D{}", heads.heads, heads.kv_heads, heads.head_dim);
        println!(
            "{line} {:?} {sequences} x {tokens} {way:?}: {us:.2} us, {:.0} GB/s, {:.0} % of the floor's {floor:.1} us; grid {}x{} cluster {}",
            heads.cache,
            bytes / us / 1e3,
            100.0 * floor / us,
            plan.cutting.columns,
            plan.units,
            plan.cutting.cluster
        );
    }

    /// Microseconds of one of the graph's launches, the median of several replays.
    fn replay(&self, graph: &Graph) -> f64 {
        let gpu = self.stream.gpu();
        let mut times: Vec<f64> = (0..9)
            .map(|_| {
                let (begin, end) = (Event::new(gpu).unwrap(), Event::new(gpu).unwrap());
                begin.record(&self.stream).unwrap();
                graph.launch(&self.stream).unwrap();
                end.record(&self.stream).unwrap();
                end.synchronize().unwrap();
                f64::from(end.elapsed_ms(&begin).unwrap()) * 1e3 / LAUNCHES as f64
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

/// What all launches of a case share.
struct Data {
    qkv: Buffer<bf16>,
    q: Buffer<bf16>,
    out: Buffer<bf16>,
    tables: Buffer<i32>,
    items: Buffer<Item>,
    positions: Buffer<i32>,
    slots: Buffer<i32>,
    inv_freq: Buffer<f32>,
    weight: Buffer<f32>,
    scratch: Scratch,
}

impl Data {
    fn new(stream: &Stream, plan: &Plan, heads: Heads, sequences: usize, tokens: usize) -> Data {
        fn upload<T: bytemuck::Pod>(stream: &Stream, values: &[T]) -> Buffer<T> {
            let mut buffer = stream.gpu().alloc(values.len()).unwrap();
            stream.upload(values, buffer.view_mut()).unwrap();
            buffer
        }
        let mut normal = Normal::new(2);
        let blocks = tokens.div_ceil(BLOCK_TOKENS);
        let mut tables: Vec<i32> = (0..(sequences * blocks) as i32).collect();
        normal.0.shuffle(&mut tables);
        let work: Vec<SequenceWork> = (0..sequences as u32)
            .map(|row| SequenceWork {
                query_row: row,
                queries: 1,
                position: tokens as u32 - 1,
                table_at: row * blocks as u32,
                table_first: 0,
            })
            .collect();
        let mut items = vec![Item::default(); plan.items()];
        plan.cutting().fill(&work, &mut items).unwrap();
        let slot = |row: usize| {
            let last = (tokens - 1) / BLOCK_TOKENS;
            tables[row * blocks + last] * BLOCK_TOKENS as i32 + ((tokens - 1) % BLOCK_TOKENS) as i32
        };
        let slots: Vec<i32> = (0..sequences).map(slot).collect();
        let width = heads.heads * heads.head_dim;
        Data {
            qkv: upload(stream, &normal.bf16s(sequences * heads.qkv_width(), 1.0)),
            q: upload(stream, &normal.bf16s(sequences * width, 1.0)),
            out: upload(stream, &normal.bf16s(sequences * width, 1.0)),
            tables: upload(stream, &tables),
            items: upload(stream, &items),
            positions: upload(stream, &vec![tokens as i32 - 1; sequences]),
            slots: upload(stream, &slots),
            inv_freq: upload(stream, &vec![0.3; heads.head_dim / 2]),
            weight: upload(stream, &vec![1.0; heads.head_dim]),
            scratch: Scratch::new(stream, [plan]).unwrap(),
        }
    }

    fn prepare(
        &mut self,
        stream: &Stream,
        kernels: &qkv_prepare::QkvPrepare,
        plan: &qkv_prepare::Plan,
        arena: &mut Buffer<u8>,
    ) -> Result<(), DriverError> {
        let args = qkv_prepare::Args {
            qkv: self.qkv.view(),
            q: self.q.view_mut(),
            arena: arena.view_mut(),
            slots: self.slots.view(),
            scales: CacheScales::default(),
            rope: Some(rope(&self.positions, &self.inv_freq)),
            norms: Some(norms(&self.weight)),
        };
        kernels.launch(stream, plan, args)
    }

    fn attend(
        &mut self,
        stream: &Stream,
        kernels: &AttentionDecode,
        plan: &Plan,
        arena: &mut Buffer<u8>,
        way: Way,
    ) -> Result<(), DriverError> {
        let fused = !matches!(way, Way::Alone | Way::Prepared);
        let args = Args {
            q: if fused { self.qkv.view() } else { self.q.view() },
            arena: arena.view_mut(),
            tables: self.tables.view(),
            items: self.items.view(),
            out: self.out.view_mut(),
            scales: CacheScales::default(),
            rope: fused.then(|| rope(&self.positions, &self.inv_freq)),
            norms: fused.then(|| norms(&self.weight)),
        };
        kernels.launch(stream, plan, &mut self.scratch, args)
    }
}

fn rope<'a>(positions: &'a Buffer<i32>, inv_freq: &'a Buffer<f32>) -> Rope<'a> {
    let (positions, inv_freq) = (positions.view(), inv_freq.view());
    Rope { positions, regimes: None, inv_freq, factors: [1.0; 2] }
}

fn norms(weight: &Buffer<f32>) -> Norms<'_> {
    Norms { q: weight.view(), k: weight.view(), eps: 1e-6 }
}

#[test]
#[ignore = "prints times, judges nothing"]
fn timings() {
    let Some(gpu) = testing::gpu() else { return };
    let bench = Bench::new(&gpu);
    let heads = |heads, kv_heads, head_dim, cache| Heads { heads, kv_heads, head_dim, cache };
    let small = heads(16, 8, 128, CacheType::Bf16);
    let large = heads(32, 8, 128, CacheType::Bf16);
    for tokens in [16, 128, 256, 400, 1000, 2048, 8192] {
        for way in [Way::Alone, Way::Prepared, Way::Fused, Way::FusedWide] {
            bench.time(small, 1, tokens, way);
        }
    }
    let batches =
        [(2, 256), (4, 256), (8, 256), (16, 256), (32, 256), (64, 256), (8, 2048), (64, 2048)];
    for (sequences, tokens) in batches {
        for way in [Way::Alone, Way::Fused, Way::FusedApart, Way::FusedWide] {
            bench.time(large, sequences, tokens, way);
        }
    }
    for cache in [CacheType::Bf16, CacheType::Fp8] {
        for (h, hk, d) in [(32, 8, 128), (32, 8, 64), (16, 8, 256), (32, 32, 96), (32, 32, 128)] {
            bench.time(heads(h, hk, d, cache), 16, 4096, Way::Fused);
            bench.time(heads(h, hk, d, cache), 16, 4096, Way::FusedWide);
        }
        bench.time(heads(32, 8, 128, cache), 1, 131_072, Way::Fused);
        bench.time(heads(32, 8, 128, cache), 64, 2048, Way::Fused);
    }
}
