//! Norms and biases: so few bytes that the host widens them, and one copy brings them all.

use models::{
    contract::DecoderExecutionContract,
    format::dense,
    synthetic,
    weights::{TensorOrigin, TensorStorage, WeightBinding},
};
use runtime::backend::LoadError;

use super::{pieces::Source, reader::WeightFiles};
use crate::layout::{ArenaLayout, Element, Target};

/// The bytes of the arena's vectors, [`ArenaLayout::vectors`], of the weights in `files` or of made-up ones.
pub fn vectors(
    contract: &DecoderExecutionContract,
    layout: &ArenaLayout,
    files: &WeightFiles,
) -> Result<Vec<u8>, LoadError> {
    let mut bytes = vec![0; (layout.vectors.end - layout.vectors.start) as usize];
    for (binding, target) in contract.bindings.iter().zip(&layout.targets) {
        let Element::F32 { add } = target.element else { continue };
        for (value, index) in values(binding, target, files)?.into_iter().zip(0..) {
            let place = (target.place(index) - layout.vectors.start) as usize;
            bytes[place..place + 4].copy_from_slice(&(value + add).to_le_bytes());
        }
    }
    Ok(bytes)
}

fn values(
    binding: &WeightBinding,
    target: &Target,
    files: &WeightFiles,
) -> Result<Vec<f32>, LoadError> {
    let TensorStorage::Dense { dtype, origin } = &binding.storage;
    let mut stored = vec![0; target.elements as usize * dtype.size()];
    match origin {
        TensorOrigin::Synthetic { seed, std, mean } => {
            synthetic::fill(*seed, 0, *std, *mean, *dtype, &mut stored);
        }
        TensorOrigin::File(region) => {
            Source::of(binding, target)?;
            files.read(region.file, region.offset, &region.tensor, &mut stored)?;
        }
    }
    let mut values = vec![0.0; target.elements as usize];
    dense::dequantize(*dtype, &stored, &mut values);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use foundation::{
        DType,
        model::{ModelManifest, WeightOrigin},
    };
    use models::{
        Checkpoint,
        mapping::MappedFile,
        weights::{LayerWeight, WeightRole},
    };
    use testkit::golden::fixture_directory;

    use super::*;
    use crate::weights::Vector;

    fn at(bytes: &[u8], vector: Vector, index: usize) -> f32 {
        let place = vector.address as usize + index * 4;
        f32::from_le_bytes(bytes[place..place + 4].try_into().unwrap())
    }

    #[test]
    fn vectors_of_files_are_widened_offset_and_fused() {
        for fixture in ["gemma3", "qwen2"] {
            let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
            let checkpoint = Checkpoint::open(&manifest).unwrap();
            let contract = checkpoint.contract.unwrap();
            let layout = ArenaLayout::new(&contract).unwrap();
            let paths: Vec<_> = checkpoint.layout.weights.iter().map(|file| &file.path).collect();
            let files = WeightFiles::open(paths.iter().map(|path| path.as_path())).unwrap();
            let bytes = vectors(&contract, &layout, &files).unwrap();
            let stored = |role| {
                let binding = contract.binding(role).unwrap();
                let TensorStorage::Dense { dtype, origin: TensorOrigin::File(region) } =
                    &binding.storage
                else {
                    panic!("a file")
                };
                let map = MappedFile::open(paths[region.file]).unwrap();
                let start = region.offset as usize;
                let mut values = vec![0.0; binding.shape[0]];
                let bytes = &map.bytes()[start..start + region.bytes as usize];
                dense::dequantize(*dtype, bytes, &mut values);
                values
            };
            let layer = &layout.parts.layers[1];
            let norm = stored(WeightRole::Layer(1, LayerWeight::MixerPreNorm));
            let offset = if fixture == "gemma3" { 1.0 } else { 0.0 };
            assert_eq!(at(&bytes, layer.mixer_pre_norm.unwrap(), 3), norm[3] + offset);
            if let Some(bias) = layer.qkv_bias {
                let key = stored(WeightRole::Layer(1, LayerWeight::KeyBias));
                assert_eq!(at(&bytes, bias, 128 + 5), key[5]);
            }
        }
    }

    #[test]
    fn made_up_vectors_need_no_file() {
        let mut manifest = ModelManifest::new("gemma3", fixture_directory("gemma3"));
        manifest.weights = WeightOrigin::Synthetic { seed: 5, dtype: DType::F16 };
        let contract = Checkpoint::open(&manifest).unwrap().contract.unwrap();
        let layout = ArenaLayout::new(&contract).unwrap();
        let bytes = vectors(&contract, &layout, &WeightFiles::open([]).unwrap()).unwrap();
        let norms = (0..128).map(|index| at(&bytes, layout.parts.final_norm, index));
        assert!(norms.into_iter().all(|value| (value - 1.0).abs() < 0.2 && value != 1.0));
    }
}
