use foundation::model::ModelManifest;
use models::Checkpoint;
use testkit::golden::fixture_directory;

use super::*;

/// One of each kind: tied and not, biases, norms on both sides, norms of queries and keys, fused tensors in the file, experts.
const FIXTURES: &[&str] = &[
    "llama",
    "llama-tied",
    "qwen2",
    "qwen3",
    "gemma3",
    "phi3-longrope",
    "olmo2",
    "glm4-moe",
    "mixtral",
];

fn contract(fixture: &str) -> DecoderExecutionContract {
    let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
    Checkpoint::open(&manifest).unwrap().contract.unwrap()
}

fn vectors(parts: &DecoderWeights) -> Vec<Vector> {
    let of_layer = |layer: &LayerWeights| {
        let of_feed_forward = match &layer.feed_forward {
            FeedForwardWeights::Dense(dense) => [dense.gate_up_bias, dense.down_bias],
            FeedForwardWeights::Routed(routed) => [routed.correction, None],
        };
        let own = [
            layer.mixer_pre_norm,
            layer.qkv_bias,
            layer.query_norm,
            layer.key_norm,
            layer.output_bias,
            layer.mixer_post_norm,
            layer.ff_pre_norm,
            layer.ff_post_norm,
        ];
        own.into_iter().chain(of_feed_forward)
    };
    let layers = parts.layers.iter().flat_map(of_layer).flatten();
    layers.chain([parts.final_norm]).collect()
}

fn matrices(parts: &DecoderWeights) -> Vec<Matrix> {
    let layers = parts.layers.iter();
    let of_dense = |dense: &DenseWeights| vec![dense.gate_up, dense.down];
    let of_feed_forward = |weights: &FeedForwardWeights| match weights {
        FeedForwardWeights::Dense(dense) => of_dense(dense),
        FeedForwardWeights::Routed(routed) => [routed.router, routed.gate_up, routed.down]
            .into_iter()
            .chain(routed.shared.iter().flat_map(of_dense))
            .collect(),
    };
    let of_layers = layers.flat_map(|layer| {
        [layer.qkv, layer.output].into_iter().chain(of_feed_forward(&layer.feed_forward))
    });
    let head = (parts.head != parts.embedding).then_some(parts.head);
    of_layers.chain([parts.embedding]).chain(head).collect()
}

#[test]
fn parts_are_aligned_apart_and_inside() {
    for fixture in FIXTURES {
        let layout = ArenaLayout::new(&contract(fixture)).unwrap();
        let vectors = vectors(&layout.parts).into_iter().map(|part| (part.address, part.bytes()));
        let vectors: Vec<_> = vectors.collect();
        assert!(vectors.iter().all(|(start, bytes)| start + bytes <= layout.vectors.end));
        let matrices = matrices(&layout.parts).into_iter();
        let mut parts: Vec<_> =
            matrices.map(|part| (part.address, part.bytes())).chain(vectors).collect();
        parts.sort_unstable();
        let mut end = 0;
        for (start, bytes) in parts {
            assert!(start.is_multiple_of(ALIGNMENT) && start >= end && bytes > 0, "{fixture}");
            end = start + bytes;
        }
        assert!(end <= layout.bytes, "{fixture}");
    }
}

/// Every element of every weight has a place of its own.
#[test]
fn no_two_elements_share_a_byte_and_none_is_left_out() {
    for fixture in FIXTURES {
        let contract = contract(fixture);
        let layout = ArenaLayout::new(&contract).unwrap();
        let mut taken = vec![0u8; layout.bytes as usize];
        for (target, binding) in layout.targets.iter().zip(&contract.bindings) {
            assert_eq!(target.elements, binding.shape.iter().product::<usize>() as u64);
            for index in 0..target.elements {
                let place = target.place(index) as usize;
                taken[place..place + target.element.size() as usize]
                    .iter_mut()
                    .for_each(|count| *count += 1);
            }
        }
        assert!(taken.iter().all(|count| *count <= 1), "{fixture}");
        let used: u64 = matrices(&layout.parts).iter().map(Matrix::bytes).sum::<u64>()
            + vectors(&layout.parts).iter().map(Vector::bytes).sum::<u64>();
        assert_eq!(taken.iter().map(|count| u64::from(*count)).sum::<u64>(), used, "{fixture}");
    }
}

#[test]
fn gate_and_up_rows_lie_in_turn_and_queries_keys_values_one_after_another() {
    let contract = contract("qwen2");
    let layout = ArenaLayout::new(&contract).unwrap();
    let target = |weight| {
        let role = WeightRole::Layer(1, weight);
        let index = contract.bindings.iter().position(|binding| binding.role == role).unwrap();
        layout.targets[index]
    };
    let layer = &layout.parts.layers[1];
    let row = |matrix: Matrix, row: u64| matrix.address + row * matrix.cols as u64 * 2;
    let gate_up = layer.dense().unwrap().gate_up;
    let cols = gate_up.cols as u64;
    for (index, wanted) in [(0, 0), (7, 7), (8, 16), (9, 17), (255, 503)] {
        assert_eq!(target(LayerWeight::Gate).place(index * cols), row(gate_up, wanted));
        assert_eq!(target(LayerWeight::Up).place(index * cols), row(gate_up, wanted + 8));
    }
    // Four query heads and two key heads of 32.
    assert_eq!(target(LayerWeight::Query).place(0), layer.qkv.address);
    assert_eq!(target(LayerWeight::Key).place(0), row(layer.qkv, 128));
    assert_eq!(target(LayerWeight::Value).place(5), row(layer.qkv, 192) + 10);
    assert_eq!((layer.qkv.rows, layer.qkv_bias.unwrap().len), (256, 256));
    assert_eq!(target(LayerWeight::ValueBias).place(1), layer.qkv_bias.unwrap().address + 193 * 4);
}

#[test]
fn a_tied_head_is_the_embedding_and_offsets_are_those_of_the_norms() {
    let contract = contract("gemma3");
    let layout = ArenaLayout::new(&contract).unwrap();
    assert_eq!(layout.parts.head, layout.parts.embedding);
    let adds = layout.targets.iter().filter_map(|target| match target.element {
        Element::F32 { add } => Some(add),
        Element::Bf16 => None,
    });
    assert!(adds.into_iter().all(|add| add == 1.0));
    let moved = layout.parts.clone().moved(1 << 40);
    let down = |parts: &DecoderWeights| parts.layers[0].dense().unwrap().down.address;
    assert_eq!(down(&moved), down(&layout.parts) + (1 << 40));
    assert_eq!(moved.final_norm.address, layout.parts.final_norm.address + (1 << 40));
}

#[test]
fn a_width_that_does_not_interleave_is_refused() {
    let mut contract = contract("llama");
    for binding in &mut contract.bindings {
        if matches!(binding.role, WeightRole::Layer(0, LayerWeight::Gate | LayerWeight::Up)) {
            binding.shape[0] = 252;
        }
    }
    let text = ArenaLayout::new(&contract).unwrap_err().to_string();
    assert!(text.contains("Gate") && text.contains("252 rows"), "{text}");
}
