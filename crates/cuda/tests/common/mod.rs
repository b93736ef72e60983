//! Loads fixtures onto the GPU by the plainest way there is: the whole arena made on the host, then one copy.

#![allow(dead_code)] // Each test file uses its part.

use std::sync::Arc;

use cuda::{
    driver::{Gpu, Stream},
    engine::{
        build::{Parts, build},
        products::Products,
    },
    layout::{ArenaLayout, Element},
    plan::{DeviceMemory, DevicePlan, plan},
    weights::DeviceWeights,
};
use foundation::{DType, model::ModelManifest};
use half::{bf16, f16};
use models::{
    Checkpoint,
    contract::DecoderExecutionContract,
    mapping::MappedFile,
    weights::{TensorOrigin, TensorStorage},
};
use runtime::backend::LoadOptions;
use testkit::golden::fixture_directory;
#[allow(unused_imports)] // Each test file uses its part.
pub use testkit::harness::{
    Harness, Sequence, Work, greedy, into_logits, into_token, small_options,
};

/// How a fixture is to run.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Decode steps replay graphs.
    pub graphs: bool,
    /// Rows do not depend on one another.
    pub invariant: bool,
}

/// As it runs when nothing is asked for.
pub const DEFAULT: Mode = Mode { graphs: true, invariant: false };

/// A fixture on the GPU, or `None` where there is none.
pub fn load(fixture: &str, mode: Mode) -> Option<Harness> {
    load_with(fixture, mode, &small_options())
}

/// A fixture on the GPU under these options.
pub fn load_with(fixture: &str, mode: Mode, options: &LoadOptions) -> Option<Harness> {
    let gpu = cuda::testing::gpu()?;
    let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
    let mut checkpoint =
        Checkpoint::open(&manifest).unwrap_or_else(|error| panic!("{fixture}: {error}"));
    let contract = checkpoint.contract.take().expect("a decoder");
    let (free, total) = gpu.memory().expect("the GPU says how much memory it has");
    let device = DeviceMemory { total, free };
    let planned = plan(&manifest, &contract, options, device).expect("a fixture fits");
    let files: Vec<_> = checkpoint.layout.weights.iter().map(|file| file.path.clone()).collect();
    let weights = upload(&gpu, &contract, &planned.layout, &files);
    let DevicePlan { memory, kv_format, .. } = planned;
    let parts = Parts {
        gpu,
        semantic: contract.semantic,
        weights,
        plan: memory,
        options: options.clone(),
        kv_format,
        invariant: mode.invariant,
        graphs: mode.graphs,
        products: Products::ByRule,
    };
    let runner = build(parts).unwrap_or_else(|error| panic!("{fixture}: {error}"));
    Some(Harness::new(Box::new(runner)))
}

fn upload(
    gpu: &Arc<Gpu>,
    contract: &DecoderExecutionContract,
    layout: &ArenaLayout,
    files: &[std::path::PathBuf],
) -> DeviceWeights {
    let mut bytes = vec![0u8; layout.bytes as usize];
    for (binding, target) in contract.bindings.iter().zip(&layout.targets) {
        let TensorStorage::Dense { dtype, origin } = &binding.storage;
        let TensorOrigin::File(region) = origin else { panic!("a fixture's weights are in files") };
        let file = MappedFile::open(&files[region.file]).expect("a weight file maps");
        let start = region.offset as usize;
        let stored = &file.bytes()[start..start + region.bytes as usize];
        for (index, value) in widen(*dtype, stored).into_iter().enumerate() {
            let at = target.place(index as u64) as usize;
            match target.element {
                Element::Bf16 => {
                    bytes[at..at + 2].copy_from_slice(&bf16::from_f32(value).to_le_bytes());
                }
                Element::F32 { add } => {
                    bytes[at..at + 4].copy_from_slice(&(value + add).to_le_bytes());
                }
            }
        }
    }
    let mut arena = gpu.alloc(bytes.len()).expect("a fixture fits");
    let stream = Stream::new(gpu).expect("a stream");
    stream.upload(&bytes, arena.view_mut()).expect("the weights arrive");
    let parts = layout.parts.clone().moved(arena.address());
    DeviceWeights { arena, parts }
}

fn widen(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let pairs = || bytes.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    match dtype {
        DType::BF16 => pairs().map(|pair| bf16::from_le_bytes(pair).to_f32()).collect(),
        DType::F16 => pairs().map(|pair| f16::from_le_bytes(pair).to_f32()).collect(),
        DType::F32 => bytes
            .chunks_exact(4)
            .map(|word| f32::from_le_bytes(word.try_into().expect("four bytes")))
            .collect(),
        other => panic!("no fixture is stored as {other}"),
    }
}
