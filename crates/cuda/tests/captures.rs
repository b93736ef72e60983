//! A capture belongs to its thread: whatever another thread does on the device meanwhile, another model that comes or goes say,
//! does not break it off.

mod common;

use std::{sync::Arc, thread};

use common::{DEFAULT, load};
use cuda::{
    driver::{DriverError, Event, Gpu, Graph, Pinned, Stream, cublaslt::Cublaslt},
    ops::{
        Ops,
        gemm::{Args, Problem, Target},
    },
};
use half::bf16;

/// What another thread does, by name.
type Deed = (&'static str, fn(&Arc<Gpu>));

const DEEDS: [Deed; 10] = [
    ("a buffer comes and goes", |gpu| drop(gpu.alloc::<u8>(8 << 20).expect("memory"))),
    ("pinned memory comes and goes", |gpu| drop(Pinned::new(gpu, 4 << 20).expect("memory"))),
    ("a stream comes and goes", |gpu| drop(Stream::new(gpu).expect("a stream"))),
    ("an event is waited for", |gpu| {
        let (stream, event) = (Stream::new(gpu).expect("a stream"), Event::new(gpu));
        let event = event.expect("an event");
        event.record(&stream).and_then(|()| event.synchronize()).expect("it passes");
    }),
    ("copies are waited for", |gpu| {
        let stream = Stream::new(gpu).expect("a stream");
        let mut buffer = gpu.alloc::<u32>(1000).expect("memory");
        stream.upload(&[7; 1000], buffer.view_mut()).expect("a copy");
        assert_eq!(stream.read(buffer.view()).expect("a copy"), [7; 1000]);
    }),
    ("a graph is captured and runs", |gpu| {
        let stream = Stream::new(gpu).expect("a stream");
        let mut buffer = gpu.alloc::<u32>(1000).expect("memory");
        let graph = Graph::capture(&stream, |stream| stream.zero(buffer.view_mut()));
        graph.and_then(|graph| graph.launch(&stream)).expect("a graph");
        stream.synchronize().expect("it ends");
    }),
    ("the library is opened", |_| drop(Cublaslt::open(&[]))),
    ("kernels are loaded and unloaded", |_| {
        drop(Ops::load(&Gpu::open(0).expect("the GPU")).expect("kernels"));
    }),
    ("a product of many rows runs", |gpu| {
        let stream = Stream::new(gpu).expect("a stream");
        product(&Ops::load(gpu).expect("kernels"), &stream, |launch| launch(&stream));
        stream.synchronize().expect("it ends");
    }),
    ("a model comes and goes", |_| drop(load("qwen3", DEFAULT))),
];

/// Gives `with` the launch of a product that may be the library's.
fn product(ops: &Ops, stream: &Stream, with: impl FnOnce(&mut dyn FnMut(&Stream))) {
    let problem = Problem::plain(512, 512, 256);
    let plan = ops.gemm.plan(&problem).expect("there is a way");
    let [x, w, mut y] = [512 * 256, 512 * 256, 512 * 512].map(|len| {
        let mut buffer = stream.gpu().alloc::<bf16>(len).expect("memory");
        stream.zero(buffer.view_mut()).expect("zeros");
        buffer
    });
    with(&mut |stream| {
        let (x, w, y) = (x.view(), w.view(), Target::Bf16(y.view_mut()));
        let args = Args { x, w, bias: None, y, live_rows: None };
        ops.gemm.launch(stream, &plan, args).expect("a product");
    });
}

#[test]
fn what_another_thread_does_breaks_off_no_capture() {
    let Some(gpu) = cuda::testing::gpu() else { return };
    let stream = Stream::new(&gpu).expect("a stream");
    let mut buffer = gpu.alloc::<u32>(1000).expect("memory");
    let mut findings = Vec::new();
    for (name, deed) in DEEDS {
        let graph = Graph::capture(&stream, |stream| -> Result<(), DriverError> {
            stream.zero(buffer.view_mut())?;
            thread::scope(|scope| scope.spawn(|| deed(&gpu)).join()).expect(name);
            stream.zero(buffer.view_mut())
        });
        match graph {
            Ok(graph) => assert_eq!(graph.nodes(), 2),
            Err(error) => findings.push(format!("{name}: {error}")),
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// The first product of a process: what the library loads when it is first needed must not break off the capture either.
#[test]
fn the_first_product_may_be_captured() {
    let Some(gpu) = cuda::testing::gpu() else { return };
    let stream = Stream::new(&gpu).expect("a stream");
    let ops = Ops::load(&gpu).expect("kernels");
    product(&ops, &stream, |launch| {
        let graph = Graph::capture(&stream, |stream| -> Result<(), DriverError> {
            launch(stream);
            Ok(())
        });
        graph.and_then(|graph| graph.launch(&stream)).expect("a graph");
    });
    stream.synchronize().expect("it ends");
}
