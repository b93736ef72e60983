//! What is read at a time: matrices cut into pieces, each of which lies in one stretch of a file and goes to one weight.

use foundation::DType;
use models::{
    contract::DecoderExecutionContract,
    weights::{FileRegion, TensorOrigin, TensorStorage, WeightBinding},
};
use runtime::backend::LoadError;

use crate::layout::{ArenaLayout, Element, Target};

/// Elements that pieces are cut at, at least: what a kernel places at once.
const GRAIN: u64 = 8;

/// A stretch of a file that holds elements of one weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the weight in the contract's bindings.
    pub weight: usize,
    /// Its element that comes first; where the weight's runs are shorter than the weight, the first of a run.
    pub first: u64,
    /// Elements; whole runs, likewise.
    pub elements: u64,
    /// Index of the file.
    pub file: usize,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: usize,
}

/// The bytes of a weight's file, the type of its elements, and where they go.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Where the bytes lie.
    pub region: &'a FileRegion,
    /// Type of the stored elements.
    pub dtype: DType,
    /// Where they go.
    pub target: &'a Target,
}

impl<'a> Source<'a> {
    /// The source of a weight that lies in a file; `None` for one that is made up.
    ///
    /// # Errors
    /// The region and the shape do not agree.
    pub fn of(binding: &'a WeightBinding, target: &'a Target) -> Result<Option<Self>, LoadError> {
        let TensorStorage::Dense { dtype, origin } = &binding.storage;
        let TensorOrigin::File(region) = origin else { return Ok(None) };
        let wanted = target.elements * dtype.size() as u64;
        if region.bytes != wanted {
            return Err(LoadError::Checkpoint(format!(
                "tensor {} has {} bytes where {:?} needs {wanted}",
                region.tensor, region.bytes, binding.role
            )));
        }
        Ok(Some(Source { region, dtype: *dtype, target }))
    }
}

/// The matrices of `contract` that lie in files, in pieces of at most `most` bytes (but whole runs, however long), in the
/// order in which they lie in the files.
pub fn cut(
    contract: &DecoderExecutionContract,
    layout: &ArenaLayout,
    most: usize,
) -> Result<Vec<Piece>, LoadError> {
    let mut pieces = Vec::new();
    for (weight, (binding, target)) in contract.bindings.iter().zip(&layout.targets).enumerate() {
        if target.element != Element::Bf16 {
            continue;
        }
        if let Some(source) = Source::of(binding, target)? {
            pieces.extend(pieces_of(weight, &source, most));
        }
    }
    pieces.sort_by_key(|piece| (piece.file, piece.offset));
    Ok(pieces)
}

fn pieces_of<'a>(
    weight: usize,
    source: &'a Source<'a>,
    most: usize,
) -> impl Iterator<Item = Piece> + 'a {
    let Source { region, dtype, target } = *source;
    let size = dtype.size() as u64;
    let step = step(target, most as u64 / size);
    (0..target.elements.div_ceil(step)).map(move |index| {
        let first = index * step;
        let elements = step.min(target.elements - first);
        Piece {
            weight,
            first,
            elements,
            file: region.file,
            offset: region.offset + first * size,
            bytes: (elements * size) as usize,
        }
    })
}

/// Elements of a piece of which `most` would fit.
fn step(target: &Target, most: u64) -> u64 {
    let unit = if target.run < target.elements { target.run } else { GRAIN };
    (most / unit).max(1) * unit
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use foundation::model::{ModelManifest, WeightOrigin};
    use models::Checkpoint;
    use testkit::golden::fixture_directory;

    use super::*;

    fn laid_out(manifest: &ModelManifest) -> (DecoderExecutionContract, ArenaLayout) {
        let contract = Checkpoint::open(manifest).unwrap().contract.unwrap();
        let layout = ArenaLayout::new(&contract).unwrap();
        (contract, layout)
    }

    #[test]
    fn pieces_cover_every_matrix_once_and_begin_with_a_run() {
        for fixture in ["llama", "phi3-longrope", "gemma3"] {
            let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
            let (contract, layout) = laid_out(&manifest);
            for most in [1, 1000, 4096, 100_000, usize::MAX / 4] {
                let pieces = cut(&contract, &layout, most).unwrap();
                let mut next: HashMap<usize, u64> = HashMap::new();
                for piece in &pieces {
                    let target = &layout.targets[piece.weight];
                    // Within a weight the order of the file is that of its elements.
                    assert_eq!(*next.entry(piece.weight).or_default(), piece.first);
                    next.insert(piece.weight, piece.first + piece.elements);
                    if target.run < target.elements {
                        assert!(piece.first.is_multiple_of(target.run));
                        assert!(piece.elements.is_multiple_of(target.run));
                    }
                    let source =
                        Source::of(&contract.bindings[piece.weight], target).unwrap().unwrap();
                    let size = source.dtype.size() as u64;
                    assert_eq!(piece.offset, source.region.offset + piece.first * size);
                    assert_eq!(piece.bytes as u64, piece.elements * size);
                    assert!(piece.bytes <= most || piece.elements <= target.run.max(GRAIN));
                }
                for (index, target) in layout.targets.iter().enumerate() {
                    let covered = next.get(&index).copied();
                    let is_matrix = target.element == Element::Bf16;
                    assert_eq!(covered, is_matrix.then_some(target.elements), "{fixture} {most}");
                }
                assert!(pieces.is_sorted_by_key(|piece| (piece.file, piece.offset)));
            }
        }
    }

    #[test]
    fn made_up_weights_are_not_read() {
        let mut manifest = ModelManifest::new("llama", fixture_directory("llama"));
        manifest.weights = WeightOrigin::Synthetic { seed: 1, dtype: DType::BF16 };
        let (contract, layout) = laid_out(&manifest);
        assert_eq!(cut(&contract, &layout, 1 << 20).unwrap(), []);
    }

    #[test]
    fn a_region_of_another_length_is_refused() {
        let manifest = ModelManifest::new("llama", fixture_directory("llama"));
        let (mut contract, layout) = laid_out(&manifest);
        let TensorStorage::Dense { origin, .. } = &mut contract.bindings[0].storage;
        let TensorOrigin::File(region) = origin else { panic!("a file") };
        region.bytes -= 2;
        let text = cut(&contract, &layout, 4096).unwrap_err().to_string();
        assert!(text.contains("embed_tokens") && text.contains("131070 bytes"), "{text}");
    }
}
