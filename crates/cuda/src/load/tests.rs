//! On a GPU: what was loaded, read back byte by byte.

use std::{path::Path, time::Instant};

use foundation::model::{ModelManifest, WeightOrigin};
use half::bf16;
use models::{
    Checkpoint,
    format::dense,
    mapping::MappedFile,
    synthetic::{fill, write_checkpoint},
    weights::{FileRegion, WeightRole},
};
use testkit::golden::fixture_directory;

use super::*;

/// A checkpoint, and what its arena must hold.
struct Case {
    contract: DecoderExecutionContract,
    layout: ArenaLayout,
    files: Vec<PathBuf>,
}

impl Case {
    fn open(manifest: &ModelManifest) -> Case {
        let checkpoint = Checkpoint::open(manifest).unwrap();
        let contract = checkpoint.contract.unwrap();
        let layout = ArenaLayout::new(&contract).unwrap();
        let files = checkpoint.layout.weights.into_iter().map(|file| file.path).collect();
        Case { contract, layout, files }
    }

    fn load(&self, gpu: &Arc<Gpu>, threads: usize) -> Result<DeviceWeights, LoadError> {
        load(gpu, &self.contract, &self.layout, &self.files, Some(threads), &mut |_| true)
    }

    /// Every element by the plain way: whole weights, one after another, on the host.
    fn expected(&self) -> Vec<u8> {
        let mut arena = vec![0; self.layout.bytes as usize];
        for (binding, target) in self.contract.bindings.iter().zip(&self.layout.targets) {
            for (value, index) in self.values(binding).into_iter().zip(0..) {
                let place = target.place(index) as usize;
                match target.element {
                    Element::Bf16 => arena[place..place + 2]
                        .copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
                    Element::F32 { add } => {
                        arena[place..place + 4].copy_from_slice(&(value + add).to_le_bytes());
                    }
                }
            }
        }
        arena
    }

    fn values(&self, binding: &WeightBinding) -> Vec<f32> {
        let TensorStorage::Dense { dtype, origin } = &binding.storage;
        let stored = match origin {
            TensorOrigin::File(region) => {
                let start = region.offset as usize;
                let map = MappedFile::open(&self.files[region.file]).unwrap();
                map.bytes()[start..start + region.bytes as usize].to_vec()
            }
            TensorOrigin::Synthetic { seed, std, mean } => {
                let mut stored = vec![0; binding.stored_bytes().0 as usize];
                fill(*seed, 0, *std, *mean, *dtype, &mut stored);
                stored
            }
        };
        let mut values = vec![0.0; stored.len() / dtype.size()];
        dense::dequantize(*dtype, &stored, &mut values);
        values
    }
}

/// What differs, in a line; gaps between parts are nobody's business.
fn difference(case: &Case, weights: &DeviceWeights, gpu: &Arc<Gpu>) -> Option<String> {
    let seen = Stream::new(gpu).unwrap().read(weights.arena.view()).unwrap();
    let expected = case.expected();
    let wrong = |target: &Target| {
        let size = target.element.size() as usize;
        let differs = |index: &u64| {
            let place = target.place(*index) as usize;
            seen[place..place + size] != expected[place..place + size]
        };
        let count = (0..target.elements).filter(|index| differs(index)).count();
        let first = (0..target.elements).find(differs)?;
        let place = target.place(first) as usize;
        Some(format!(
            "{count} of {} wrong, first {first} at byte {place}: {:x?}, wanted {:x?}",
            target.elements,
            &seen[place..place + size],
            &expected[place..place + size]
        ))
    };
    case.contract.bindings.iter().zip(&case.layout.targets).find_map(|(binding, target)| {
        wrong(target).map(|text| format!("{:?}: {text}", binding.role))
    })
}

#[test]
fn fixtures_lie_on_the_device_as_laid_out() {
    let Some(gpu) = crate::testing::gpu() else { return };
    let mut findings = Vec::new();
    for fixture in ["llama", "llama-tied", "qwen2", "qwen3", "gemma3", "phi3-longrope", "olmo2"] {
        let case = Case::open(&ModelManifest::new(fixture, fixture_directory(fixture)));
        for threads in [1, 5] {
            match case.load(&gpu, threads) {
                Ok(weights) => findings.extend(
                    difference(&case, &weights, &gpu)
                        .map(|text| format!("{fixture} {threads}: {text}")),
                ),
                Err(error) => findings.push(format!("{fixture} {threads}: {error}")),
            }
        }
    }
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn other_element_types_are_rounded_on_the_device() {
    let Some(gpu) = crate::testing::gpu() else { return };
    let mut findings = Vec::new();
    for dtype in [DType::F16, DType::F32] {
        let out = tempfile::tempdir().unwrap();
        let config = fixture_directory("qwen2");
        write_checkpoint(&config, out.path(), 9, dtype, &mut |_, _| true).unwrap();
        let case = Case::open(&ModelManifest::new("written", out.path()));
        let weights = case.load(&gpu, 3).unwrap();
        findings.extend(difference(&case, &weights, &gpu).map(|text| format!("{dtype}: {text}")));
    }
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn made_up_weights_are_those_of_the_host() {
    let Some(gpu) = crate::testing::gpu() else { return };
    let mut findings = Vec::new();
    for (fixture, dtype) in
        [("qwen2", DType::BF16), ("gemma3", DType::F16), ("llama-tied", DType::F32)]
    {
        let mut manifest = ModelManifest::new(fixture, fixture_directory(fixture));
        manifest.weights = WeightOrigin::Synthetic { seed: 77, dtype };
        let case = Case::open(&manifest);
        let weights = case.load(&gpu, 1).unwrap();
        findings.extend(difference(&case, &weights, &gpu).map(|text| format!("{fixture}: {text}")));
    }
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn a_cancelled_or_failed_load_gives_every_byte_back() {
    let Some(gpu) = crate::testing::gpu() else { return };
    let out = tempfile::tempdir().unwrap();
    let config = fixture_directory("llama");
    write_checkpoint(&config, out.path(), 9, DType::BF16, &mut |_, _| true).unwrap();
    let case = Case::open(&ModelManifest::new("written", out.path()));
    gives_every_byte_back(&gpu, || {
        for most in [0, 1, 2, 5] {
            let mut asked = 0;
            let ended = load(&gpu, &case.contract, &case.layout, &case.files, Some(2), &mut |_| {
                asked += 1;
                asked <= most
            });
            assert!(matches!(ended, Err(LoadError::Cancelled)), "{most}");
            assert_eq!(asked, most + 1);
        }
    });
    let path: &Path = &case.files[0];
    let length = path.metadata().unwrap().len();
    std::fs::File::options().write(true).open(path).unwrap().set_len(length - 4096).unwrap();
    gives_every_byte_back(&gpu, || {
        let text = case.load(&gpu, 2).unwrap_err().to_string();
        assert!(
            text.contains("model-00001-of-00001.safetensors, tensor ") && text.contains("shrunk"),
            "{text}"
        );
    });
}

/// Whether memory is as free after `load` as before it, some time. Tests beside this one take memory of the same device; most of it
/// they give back in time, but what their modules take stays: one time without such a neighbour is enough.
fn gives_every_byte_back(gpu: &Arc<Gpu>, load: impl Fn()) {
    load(); // its own modules and its first stream stay
    let free = || gpu.memory().unwrap().0.0;
    let mut missing = Vec::new();
    for _ in 0..20 {
        let before = free();
        load();
        for _ in 0..10 {
            if free() >= before {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(100));
        }
        missing.push(before.saturating_sub(free()));
    }
    panic!("each time bytes were missing: {missing:?}");
}

/// The bindings of Qwen3-8B in one file of `layers` layers that stand in for all of them: as much is read, and what is read is
/// more than any cache holds.
fn repeated(layers: u32, file: &Path) -> Case {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/configs/qwen3-8b");
    let mut manifest = ModelManifest::new("speed", config);
    manifest.weights = WeightOrigin::Synthetic { seed: 1, dtype: DType::BF16 };
    let mut case = Case::open(&manifest);
    case.files = vec![file.to_owned()];
    let mut places = std::collections::HashMap::new();
    let mut length = 0;
    for binding in &mut case.contract.bindings {
        let place = match binding.role {
            WeightRole::Layer(layer, weight) => WeightRole::Layer(layer % layers, weight),
            role => role,
        };
        let bytes = binding.stored_bytes().0;
        let offset = *places.entry(place).or_insert_with(|| {
            length += bytes;
            length - bytes
        });
        let tensor = format!("{:?}", binding.role);
        let TensorStorage::Dense { origin, .. } = &mut binding.storage;
        *origin = TensorOrigin::File(FileRegion { tensor, file: 0, offset, bytes });
    }
    fill_file(file, length);
    case
}

/// Writes `length` bytes that are all alike by megabytes, from eight threads.
fn fill_file(path: &Path, length: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).unwrap();
    file.set_len(length).unwrap();
    let chunk: Vec<u8> =
        (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    thread::scope(|scope| {
        for part in 0..8u64 {
            let (file, chunk) = (&file, &chunk);
            scope.spawn(move || {
                for offset in (part << 20..length).step_by(8 << 20) {
                    let bytes = (length - offset).min(1 << 20) as usize;
                    file.write_all_at(&chunk[..bytes], offset).unwrap();
                }
            });
        }
    });
}

#[test]
#[ignore = "measures"]
#[allow(clippy::print_stdout)]
fn speed_of_loading() {
    let Some(gpu) = crate::testing::gpu() else { return };
    let seconds = |start: Instant| start.elapsed().as_secs_f64();
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
    let start = Instant::now();
    let case = repeated(4, &dir.path().join("w"));
    println!("file written in {:.2} s, {} threads here", seconds(start), default_threads());
    let total = case.contract.weight_bytes().0 as f64;
    let rings =
        [(16, 8), (16, 8), (16, 4), (16, 2), (16, 1), (12, 4), (12, 2), (8, 8), (8, 4), (8, 2)];
    for (threads, mib) in rings {
        let start = Instant::now();
        let ring = Ring { threads, bytes: mib << 20 };
        let (contract, layout, files) = (&case.contract, &case.layout, &case.files);
        let weights = load_through(ring, &gpu, contract, layout, files, &mut |_| true).unwrap();
        let loaded = seconds(start);
        drop(weights);
        println!(
            "{threads} threads, {mib} MiB: {:.2} GB in {loaded:.3} s, {:.1} GB/s",
            total / 1e9,
            total / 1e9 / loaded
        );
    }
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/configs/qwen3-8b");
    let mut manifest = ModelManifest::new("speed", config);
    for dtype in [DType::BF16, DType::F16] {
        manifest.weights = WeightOrigin::Synthetic { seed: 1, dtype };
        let case = Case::open(&manifest);
        let start = Instant::now();
        case.load(&gpu, 1).unwrap();
        println!("made up, {dtype}: {:.3} s", seconds(start));
    }
}
