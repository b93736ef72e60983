//! Writes a made-up checkpoint: sharded safetensors with an index, as a download would lie there.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    thread,
};

use foundation::{
    Bytes, DType,
    model::{ModelManifest, WeightOrigin},
};
use serde_json::{Map, Value, json};

use super::fill;
use crate::{
    checkpoint::Checkpoint,
    error::Error,
    files::{MAX_CONFIG, read_json_object},
    weights::{PlannedWeight, TensorOrigin, TensorStorage, WeightBinding},
};

/// Largest shard, as `save_pretrained` cuts them.
const SHARD: Bytes = Bytes::gib(5);
/// Bytes made, by all cores, and then written at a time.
const CHUNK: usize = 1 << 26;

/// Writes the checkpoint that `config_dir` describes into `out_dir`, its weights made from `seed` and stored as `dtype`.
/// The values equal those of [`WeightOrigin::Synthetic`] with the same seed.
///
/// `progress` is told bytes done and bytes in all; it returns `false` to stop, and then nothing but the directory stays.
pub fn write_checkpoint(
    config_dir: &Path,
    out_dir: &Path,
    seed: u64,
    dtype: DType,
    progress: &mut dyn FnMut(Bytes, Bytes) -> bool,
) -> Result<(), Error> {
    write_sharded(config_dir, out_dir, seed, dtype, SHARD, progress)
}

pub(super) fn write_sharded(
    config_dir: &Path,
    out_dir: &Path,
    seed: u64,
    dtype: DType,
    shard: Bytes,
    progress: &mut dyn FnMut(Bytes, Bytes) -> bool,
) -> Result<(), Error> {
    let manifest = ModelManifest {
        weights: WeightOrigin::Synthetic { seed, dtype },
        ..ModelManifest::new("synthetic", config_dir)
    };
    let checkpoint = Checkpoint::open(&manifest)?;
    let tensors = tensors(&checkpoint);
    let shards = cut(&tensors, shard);
    fs::create_dir_all(out_dir).map_err(|error| Error::io(out_dir, error))?;
    let mut job = Job {
        done: Bytes(0),
        total: tensors.iter().map(|tensor| Bytes(tensor.bytes)).sum(),
        dtype,
        progress,
        written: Vec::new(),
    };
    let finished = job.write(out_dir, &shards);
    if !matches!(finished, Ok(true)) {
        // Half a checkpoint would be found broken later; none is found missing.
        job.written.iter().for_each(|path| drop(fs::remove_file(path)));
        return finished.map(|_| ());
    }
    write_index(out_dir, &shards, job.total)?;
    copy_side_files(config_dir, out_dir, dtype)
}

/// A tensor of the checkpoint: one weight, or several as ranges of its rows, in order.
struct Tensor<'a> {
    name: &'a str,
    shape: Vec<usize>,
    bytes: u64,
    parts: Vec<&'a WeightBinding>,
}

/// The tensors that the weights lie in, in the order of the plan.
fn tensors(checkpoint: &Checkpoint) -> Vec<Tensor<'_>> {
    let decoder = checkpoint.task.decoder().expect("open() fails for other tasks");
    let contract = checkpoint.contract.as_ref().expect("a decoder has a contract");
    let mut tensors: Vec<Tensor<'_>> = Vec::new();
    for (weight, binding) in decoder.weights.iter().zip(&contract.bindings) {
        let PlannedWeight { source, .. } = weight;
        let bytes = binding.stored_bytes().0;
        // Row ranges of one tensor stand next to each other in every plan, first rows first.
        match tensors.last_mut().filter(|last| last.name == source.tensor) {
            Some(last) => {
                last.shape[0] += binding.shape[0];
                last.bytes += bytes;
                last.parts.push(binding);
            }
            None => tensors.push(Tensor {
                name: &source.tensor,
                shape: binding.shape.clone(),
                bytes,
                parts: vec![binding],
            }),
        }
    }
    tensors
}

/// Cuts before the tensor that would make a shard too large.
fn cut<'a>(tensors: &'a [Tensor<'a>], shard: Bytes) -> Vec<&'a [Tensor<'a>]> {
    let mut shards = Vec::new();
    let (mut first, mut size) = (0, 0);
    for (index, tensor) in tensors.iter().enumerate() {
        if index > first && size + tensor.bytes > shard.0 {
            shards.push(&tensors[first..index]);
            (first, size) = (index, 0);
        }
        size += tensor.bytes;
    }
    shards.push(&tensors[first..]);
    shards
}

fn shard_name(index: usize, count: usize) -> String {
    format!("model-{:05}-of-{count:05}.safetensors", index + 1)
}

struct Job<'a> {
    done: Bytes,
    total: Bytes,
    dtype: DType,
    progress: &'a mut dyn FnMut(Bytes, Bytes) -> bool,
    written: Vec<std::path::PathBuf>,
}

impl Job<'_> {
    /// Whether it was let finish.
    fn write(&mut self, out_dir: &Path, shards: &[&[Tensor<'_>]]) -> Result<bool, Error> {
        for (index, tensors) in shards.iter().enumerate() {
            let path = out_dir.join(shard_name(index, shards.len()));
            self.written.push(path.clone());
            match self.write_shard(&path, tensors) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return Err(Error::io(path, error)),
            }
        }
        Ok(true)
    }

    fn write_shard(&mut self, path: &Path, tensors: &[Tensor<'_>]) -> std::io::Result<bool> {
        let mut out = BufWriter::new(File::create(path)?);
        let header = header(tensors, self.dtype);
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        for part in tensors.iter().flat_map(|tensor| &tensor.parts) {
            if !self.write_weight(&mut out, part)? {
                return Ok(false);
            }
        }
        out.flush()?;
        Ok(true)
    }

    fn write_weight(
        &mut self,
        out: &mut impl Write,
        weight: &WeightBinding,
    ) -> std::io::Result<bool> {
        let TensorStorage::Dense { dtype, origin } = &weight.storage;
        let TensorOrigin::Synthetic { seed, std, mean } = *origin else {
            unreachable!("the manifest asked for made-up weights")
        };
        let total = weight.stored_bytes().0 as usize;
        let mut buffer = vec![0; CHUNK.min(total)];
        for offset in (0..total).step_by(CHUNK) {
            let chunk = &mut buffer[..CHUNK.min(total - offset)];
            let first = (offset / dtype.size()) as u64;
            by_all_cores(chunk, dtype.size(), |at, part| {
                fill(seed, first + at, std, mean, *dtype, part);
            });
            out.write_all(chunk)?;
            self.done.0 += chunk.len() as u64;
            if !(self.progress)(self.done, self.total) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Gives `bytes` to `work` in parts, one for each core, with the number of the part's first element.
fn by_all_cores(bytes: &mut [u8], element: usize, work: impl Fn(u64, &mut [u8]) + Sync) {
    /// Less is not worth a thread.
    const LEAST: usize = 1 << 18;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let part = bytes.len().div_ceil(cores).max(LEAST).next_multiple_of(element);
    let work = &work;
    thread::scope(|scope| {
        for (index, bytes) in bytes.chunks_mut(part).enumerate() {
            scope.spawn(move || work((index * part / element) as u64, bytes));
        }
    });
}

/// The header of a shard, padded so that the data begins at a multiple of 64 bytes.
fn header(tensors: &[Tensor<'_>], dtype: DType) -> String {
    let mut entries = Map::new();
    entries.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut begin = 0;
    for tensor in tensors {
        let end = begin + tensor.bytes;
        let entry =
            json!({"dtype": dtype.name(), "shape": tensor.shape, "data_offsets": [begin, end]});
        entries.insert(tensor.name.to_owned(), entry);
        begin = end;
    }
    let mut text = Value::Object(entries).to_string();
    let padded = (text.len() + 8).next_multiple_of(64) - 8;
    text.extend(std::iter::repeat_n(' ', padded - text.len()));
    text
}

fn write_index(out_dir: &Path, shards: &[&[Tensor<'_>]], total: Bytes) -> Result<(), Error> {
    let mut weight_map = BTreeMap::new();
    for (index, tensors) in shards.iter().enumerate() {
        let file = shard_name(index, shards.len());
        weight_map.extend(tensors.iter().map(|tensor| (tensor.name, file.clone())));
    }
    let index = json!({"metadata": {"total_size": total.0}, "weight_map": weight_map});
    write_json(&out_dir.join("model.safetensors.index.json"), &index)
}

/// The configuration, with the type that the weights now have, and everything that belongs to the text.
fn copy_side_files(config_dir: &Path, out_dir: &Path, dtype: DType) -> Result<(), Error> {
    let mut config = read_json_object(&config_dir.join("config.json"), MAX_CONFIG)?;
    let spelled = match dtype {
        DType::F16 => "float16",
        DType::F32 => "float32",
        _ => "bfloat16",
    };
    config.remove("dtype");
    config.insert("torch_dtype".to_owned(), Value::from(spelled));
    write_json(&out_dir.join("config.json"), &Value::Object(config))?;
    for name in SIDE_FILES {
        let from = config_dir.join(name);
        if from.is_file() {
            fs::copy(&from, out_dir.join(name)).map_err(|error| Error::io(from, error))?;
        }
    }
    Ok(())
}

const SIDE_FILES: &[&str] = &[
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
];

fn write_json(path: &Path, value: &Value) -> Result<(), Error> {
    fs::write(path, format!("{value:#}\n")).map_err(|error| Error::io(path, error))
}
