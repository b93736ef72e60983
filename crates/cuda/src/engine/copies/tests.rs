use foundation::BlockId;
use models::semantic::DecoderSemantic;
use runtime::batch::HostSlot;

use super::*;
use crate::{
    driver::Planes,
    model::kv::{KvFormat, tests::semantic},
};

fn group(layers: usize, blocks: usize, block_bytes: usize, slots: usize) -> GroupSlots {
    let planes = Planes { count: layers, rows: blocks, row_bytes: block_bytes };
    GroupSlots::new(vec![Stretch { offset: 0, planes }], slots)
}

#[test]
fn pieces_hold_whole_slots_and_every_slot_has_a_place() {
    // 36 layers of 64 KiB: 455 slots of 2.25 MiB to a GiB.
    let group = group(36, 100, 64 << 10, 1000);
    let pieces = group.piece_bytes();
    assert_eq!(
        pieces.iter().map(|bytes| bytes / group.slot_bytes).collect::<Vec<_>>(),
        [455, 455, 90]
    );
    let mut next = vec![0; pieces.len()];
    for slot in 0..1000 {
        let (piece, offset) = group.place(slot);
        assert_eq!(offset, next[piece], "slot {slot}");
        next[piece] += group.slot_bytes;
    }
    assert_eq!(next, pieces);
    assert!(self::group(36, 100, 64 << 10, 0).piece_bytes().is_empty());
    assert_eq!(
        self::group(2, 4, 1 << 30, 3).piece_bytes(),
        [2 << 30; 3],
        "a slot larger than a piece"
    );
}

/// Queues copies of (block, slot) pairs of a group.
fn queue(
    copies: &mut HostCopies,
    way: CopyWay,
    group: u32,
    pairs: &[(u32, u32)],
    steps: &Stream,
    arena: &KvArena,
) -> CopyId {
    let list = pairs.iter().map(|(block, slot)| {
        let (block, slot) = (BlockId(*block), HostSlot(*slot));
        HostCopy { group, block, slot }
    });
    copies.queue(way, &list.collect::<Vec<_>>(), steps, arena).unwrap()
}

fn wait(copies: &mut HostCopies) -> Copied {
    loop {
        if let Some(copied) = copies.ended().unwrap() {
            return copied;
        }
        std::thread::yield_now();
    }
}

/// Every byte of every layer tells where it was before.
fn fill(stream: &Stream, arena: &mut KvArena, salt: u8) -> Vec<Vec<u8>> {
    let mut filled = Vec::new();
    for layer in 0..arena.layers.len() {
        let bytes = arena.layer(layer).len();
        let value = |at: usize| ((at as u64 * 0x9E37 + layer as u64 * 77) >> 5) as u8 ^ salt;
        let values: Vec<u8> = (0..bytes).map(value).collect();
        stream.upload(&values, arena.layer_mut(layer)).unwrap();
        filled.push(values);
    }
    filled
}

#[test]
fn blocks_come_back_as_they_went_and_nothing_else_changes() {
    let Some(gpu) = crate::testing::gpu() else { return };
    let semantic: DecoderSemantic = semantic();
    for format in [KvFormat::Bf16, KvFormat::Fp8] {
        let steps = Stream::new(&gpu).unwrap();
        let mut arena = KvArena::new(&gpu, &semantic, &[5, 3], format).unwrap();
        let mut copies = HostCopies::new(&gpu, &arena, &[4, 7]).unwrap();
        let before = fill(&steps, &mut arena, 0);
        // Group 1 has two layers, group 0 one; see the test of the arena's layout.
        let first = queue(&mut copies, CopyWay::Out, 1, &[(2, 6), (0, 1)], &steps, &arena);
        let second = queue(&mut copies, CopyWay::Out, 0, &[(4, 3)], &steps, &arena);
        assert_eq!((wait(&mut copies).id, wait(&mut copies).id), (first, second), "in order");
        let mut expected = fill(&steps, &mut arena, 0xFF);
        let third = queue(&mut copies, CopyWay::In, 1, &[(1, 6), (2, 1)], &steps, &arena);
        assert_eq!(wait(&mut copies).id, third);
        queue(&mut copies, CopyWay::In, 0, &[(0, 3)], &steps, &arena);
        wait(&mut copies);
        for (layer, KvLayerAt { group, bytes }) in layers(&arena).into_iter().enumerate() {
            let moves: &[(usize, usize)] = if group == 1 { &[(2, 1), (0, 2)] } else { &[(4, 0)] };
            for (from, to) in moves {
                let block = before[layer][from * bytes..(from + 1) * bytes].to_vec();
                expected[layer][to * bytes..(to + 1) * bytes].copy_from_slice(&block);
            }
            assert!(
                steps.read(arena.layer(layer)).unwrap() == expected[layer],
                "layer {layer}, {format:?}"
            );
        }
        let wrong = HostCopy { group: 0, block: BlockId(0), slot: HostSlot(4) };
        assert!(copies.queue(CopyWay::Out, &[wrong], &steps, &arena).is_err());
        let wrong = HostCopy { group: 1, block: BlockId(3), slot: HostSlot(0) };
        assert!(copies.queue(CopyWay::In, &[wrong], &steps, &arena).is_err());
    }
}

struct KvLayerAt {
    group: usize,
    bytes: usize,
}

fn layers(arena: &KvArena) -> Vec<KvLayerAt> {
    let at = |layer: &crate::model::kv::KvLayer| KvLayerAt {
        group: layer.group,
        bytes: layer.block_bytes,
    };
    arena.layers.iter().map(at).collect()
}

#[test]
fn a_copy_waits_for_the_steps_before_it() {
    let Some(gpu) = crate::testing::gpu() else { return };
    let steps = Stream::new(&gpu).unwrap();
    let mut arena = KvArena::new(&gpu, &semantic(), &[5, 3], KvFormat::Bf16).unwrap();
    let mut copies = HostCopies::new(&gpu, &arena, &[4, 7]).unwrap();
    fill(&steps, &mut arena, 0);
    // A step that takes its time, and then writes the blocks.
    let mut slow = gpu.alloc::<u8>(1 << 30).unwrap();
    (0..100).for_each(|_| steps.zero(slow.view_mut()).unwrap());
    let layer = arena.layers.iter().position(|layer| layer.group == 0).unwrap();
    steps.zero(arena.layer_mut(layer)).unwrap();
    queue(&mut copies, CopyWay::Out, 0, &[(1, 0)], &steps, &arena);
    // Nor may a copy in overwrite what a step still reads: it waits alike.
    queue(&mut copies, CopyWay::In, 0, &[(2, 1)], &steps, &arena);
    wait(&mut copies);
    wait(&mut copies);
    fill(&steps, &mut arena, 0xFF);
    queue(&mut copies, CopyWay::In, 0, &[(4, 0)], &steps, &arena);
    wait(&mut copies);
    let seen = steps.read(arena.layer(layer)).unwrap();
    let bytes = arena.layers[layer].block_bytes;
    assert!(seen[4 * bytes..].iter().all(|byte| *byte == 0), "what the step wrote went out");
}
