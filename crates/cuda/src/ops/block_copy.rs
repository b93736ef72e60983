//! Copies of whole cache blocks, before anything else of a step (copy on write). See `block_copy.cu`.

use crate::driver::{DriverError, Gpu, Image, Kernel, Shape, Stream, View, image};

static IMAGE: Image = image!("block_copy");

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub struct BlockCopies {
    kernel: Kernel,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    layers: u64,
    pairs: u64,
    bytes: u64,
}
const _: () = assert!(size_of::<Params>() == 24);

impl BlockCopies {
    /// Finds the kernel.
    pub fn load(gpu: &Gpu) -> Result<BlockCopies, DriverError> {
        Ok(BlockCopies { kernel: gpu.kernel(&IMAGE, "block_copy")? })
    }

    /// Copies block `pairs[i][0]` to block `pairs[i][1]` in every arena whose address is in `layers`. No block may be both
    /// read and written: give a chain of copies as several launches. The launch that follows must not overlap this one.
    ///
    /// # Errors
    /// Where a block is no whole number of 16 bytes.
    #[allow(unsafe_code)]
    pub fn launch(
        &self,
        stream: &Stream,
        layers: View<'_, u64>,
        pairs: View<'_, [u32; 2]>,
        block_bytes: usize,
    ) -> Result<(), DriverError> {
        if pairs.is_empty() || layers.is_empty() {
            return Ok(());
        }
        if !block_bytes.is_multiple_of(16) {
            return Err(DriverError::Invalid(format!(
                "block_copy: blocks of {block_bytes} bytes, a multiple of 16 needed"
            )));
        }
        let params =
            Params { layers: layers.address(), pairs: pairs.address(), bytes: block_bytes as u64 };
        let grid = [pairs.len() as u32, layers.len() as u32, 1];
        let shape = Shape { grid, block: 256, shared: 0, cluster: 1, overlap: true };
        // SAFETY: one block a pair and layer; the arenas live as long as the model, and the step's check keeps blocks in them.
        unsafe { stream.launch(&self.kernel, shape, &params) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn blocks_are_copied_in_every_layer() {
        let Some(gpu) = testing::gpu() else { return };
        let stream = Stream::new(&gpu).unwrap();
        let copies = BlockCopies::load(&gpu).unwrap();
        const BYTES: usize = 4112;
        let before: Vec<u8> = (0..2 * 8 * BYTES).map(|i| (i * 7 % 251) as u8).collect();
        let mut arena = gpu.alloc::<u8>(before.len()).unwrap();
        stream.upload(&before, arena.view_mut()).unwrap();
        let mut layers = gpu.alloc::<u64>(2).unwrap();
        let bases = [arena.address(), arena.address() + (8 * BYTES) as u64];
        stream.upload(&bases, layers.view_mut()).unwrap();
        let list = [[0u32, 7], [3, 1], [5, 2]];
        let mut pairs = gpu.alloc::<[u32; 2]>(3).unwrap();
        stream.upload(&list, pairs.view_mut()).unwrap();
        copies.launch(&stream, layers.view(), pairs.view(), BYTES).unwrap();
        let mut wanted = before;
        for layer in wanted.chunks_mut(8 * BYTES) {
            for [from, to] in list.map(|pair| pair.map(|block| block as usize)) {
                layer.copy_within(from * BYTES..(from + 1) * BYTES, to * BYTES);
            }
        }
        assert!(stream.read(arena.view()).unwrap() == wanted);
        assert!(copies.launch(&stream, layers.view(), pairs.view(), 24).is_err());
        copies.launch(&stream, layers.view(), pairs.view().slice(0..0), BYTES).unwrap();
    }
}
