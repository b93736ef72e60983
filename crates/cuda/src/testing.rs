//! What tests and benches of kernels share.

use std::sync::Arc;

use foundation::DType;

use crate::{
    driver::{Gpu, Stream},
    ops::{
        placed::{Placement, Plan},
        synthesize::{Args, Synthesize},
    },
};

/// The first GPU, or `None` with a line that says so.
///
/// # Panics
/// Where `REQUIRE_GPU` is `1` and there is no GPU: on a machine that has one, a skipped test is a failed test.
#[allow(clippy::print_stdout)]
pub fn gpu() -> Option<Arc<Gpu>> {
    match Gpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "REQUIRE_GPU is 1, but: {error}");
            println!("skipped: no GPU ({error})");
            None
        }
    }
}

/// Breaks the device for this process, as a defect of a kernel would: one writes where nothing is. Nothing of the process's
/// work on the device goes on, and nothing that it holds there can be used again.
///
/// # Panics
/// When the device survives it.
#[allow(unsafe_code)]
pub fn break_device(gpu: &Arc<Gpu>) {
    let placement = Placement { elements: 8, run: 8, pitch: 8 };
    let plan = Plan::new(&placement).expect("one vector can be placed");
    let stream = Stream::new(gpu).expect("a stream");
    let kernels = Synthesize::load(gpu).expect("the kernels are there");
    // The first page of device memory is nobody's.
    let args = Args { seed: 0, first: 0, std: 1.0, mean: 0.0, dtype: DType::BF16, to: 16 };
    // SAFETY: not safe for the device, which is what is wanted; no memory of the host can be reached from it.
    let launched = unsafe { kernels.launch(&stream, &plan, args) };
    let ended = launched.and_then(|()| stream.synchronize());
    assert!(ended.is_err_and(|error| error.is_fault()), "the device has survived it");
}

#[cfg(test)]
mod tests {
    use crate::driver::{Event, Graph, Pinned, Stream};

    #[test]
    fn copies_fills_and_graphs() {
        let Some(gpu) = super::gpu() else { return };
        let stream = Stream::new(&gpu).unwrap();
        let values: Vec<u32> = (0..1000).collect();
        let mut first = gpu.alloc::<u32>(1000).unwrap();
        let mut second = gpu.alloc::<u32>(1000).unwrap();
        stream.upload(&values, first.view_mut()).unwrap();
        stream.zero(second.view_mut()).unwrap();
        let graph = Graph::capture(&stream, |stream| {
            stream.copy(first.view().slice(10..20), second.view_mut().slice(0..10))
        });
        let graph = graph.unwrap();
        assert_eq!(graph.nodes(), 1);
        assert_eq!(stream.read(second.view()).unwrap(), vec![0; 1000], "a capture runs nothing");
        let (begin, end) = (Event::new(&gpu).unwrap(), Event::new(&gpu).unwrap());
        begin.record(&stream).unwrap();
        graph.launch(&stream).unwrap();
        end.record(&stream).unwrap();
        end.synchronize().unwrap();
        assert!(end.elapsed_ms(&begin).unwrap() > 0.0);
        let seen = stream.read(second.view().slice(0..11)).unwrap();
        assert_eq!(seen, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0]);
    }

    #[test]
    #[allow(unsafe_code)]
    fn pinned_memory_goes_there_and_back() {
        let Some(gpu) = super::gpu() else { return };
        let stream = Stream::new(&gpu).unwrap();
        let mut pinned = Pinned::new(&gpu, 4096).unwrap();
        pinned.bytes_mut().iter_mut().zip(0u32..).for_each(|(byte, i)| *byte = (i % 251) as u8);
        let buffer = gpu.alloc::<u8>(1024).unwrap();
        // SAFETY: nothing touches either side before the stream is synchronised below.
        unsafe { stream.upload_async(&pinned, 100, 1024, buffer.address()) }.unwrap();
        assert_eq!(stream.read(buffer.view()).unwrap(), pinned.bytes()[100..1124]);
        // SAFETY: never queued: the range is refused.
        assert!(unsafe { stream.upload_async(&pinned, 4000, 97, buffer.address()) }.is_err());
    }

    #[test]
    fn too_much_memory_is_refused_with_numbers() {
        let Some(gpu) = super::gpu() else { return };
        let error = gpu.alloc::<u8>(1 << 42).unwrap_err();
        assert!(error.to_string().contains("out of GPU memory: 4.0 TiB wanted"), "{error}");
    }
}
