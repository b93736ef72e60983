//! A server under test, on a free port, with models from the fixtures.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc as std_mpsc},
    thread::JoinHandle,
    time::Duration,
};

use futures::stream;
use runtime::backend::{Backend, RunnerSpec};
use serde_json::{Value, json};
use server::{Ending, ServerOptions};
use testkit::{FakeBackend, FakeRunner, Fault, Gate, GatedBackend, Script, ScriptedBackend};
use tokenmill::{Library, LibraryOptions, Model, ModelOptions};
use tokio::sync::mpsc;

use crate::client::{Exchange, Reply, request};

/// A server on a thread of its own. Ends at once when dropped.
pub struct House {
    pub address: SocketAddr,
    pub gate: Arc<Gate>,
    /// What the models say instead of what they would.
    pub script: Script,
    signals: mpsc::UnboundedSender<()>,
    thread: Option<JoinHandle<Ending>>,
    /// Keeps the models past the server's end. Whoever drops a model last waits for its engine, and the server's thread
    /// would wait for ever at a gate that the test opens afterwards.
    library: Library,
}

/// What a server is started with.
pub struct Plan {
    pub fixtures: Vec<&'static str>,
    pub backend: Arc<dyn Backend>,
    pub server: ServerOptions,
    pub model: ModelOptions,
    /// Loading waits for a word on this channel.
    pub hold_loading: Option<std_mpsc::Receiver<()>>,
}

impl Plan {
    pub fn of(fixtures: &[&'static str]) -> Plan {
        // A test that loses a model looks at what the server says then, for as long as it likes.
        let fault_linger = Duration::from_secs(3600);
        let server = ServerOptions { port: 0, fault_linger, ..ServerOptions::default() };
        let model = ModelOptions { threads: Some(1), ..ModelOptions::default() };
        let backend = Arc::new(cpu::CpuBackend::new());
        Plan { fixtures: fixtures.to_vec(), backend, server, model, hold_loading: None }
    }

    /// A fake model under the tokenizer of one fixture, which goes wrong as told.
    pub fn fake(fixture: &'static str, fault: Option<Fault>) -> Plan {
        let spec = RunnerSpec { vocab_size: 512, ..FakeRunner::small_spec() };
        let backend = Arc::new(FakeBackend::new(spec).with_fault(fault));
        Plan { backend, ..Plan::of(&[fixture]) }
    }

    pub fn start(self) -> House {
        let gate = Arc::new(Gate::default());
        let Plan { fixtures, backend, server, model, hold_loading } = self;
        let backend = GatedBackend { inner: backend, gate: gate.clone() };
        let script = Script::default();
        let backend = ScriptedBackend::new(Arc::new(backend), script.clone());
        let library =
            Library::with_backends(LibraryOptions::default(), vec![Arc::new(backend)]).unwrap();
        let kept = library.clone();
        let loads_behind_our_back = hold_loading.is_some();
        let load = move || {
            if let Some(hold) = hold_loading {
                let _ = hold.recv();
            }
            let load = |name: &&str| {
                let path = testkit::golden::fixture_directory(name);
                let options = ModelOptions { id: Some((*name).to_owned()), ..model.clone() };
                library.load(&path.to_string_lossy(), options, &mut |_| true)
            };
            fixtures.iter().map(load).collect()
        };
        let (signals, told) = mpsc::unbounded_channel();
        let (listening, address) = std_mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
            let told =
                stream::unfold(told, |mut told| async { told.recv().await.map(|()| ((), told)) });
            let serving = server::serve(server, load, Box::pin(told), |address| {
                listening.send(address).unwrap();
            });
            let ending = runtime.block_on(serving).unwrap();
            runtime.shutdown_background();
            ending
        });
        let address = address.recv().expect("the server listens");
        let house = House { address, gate, script, signals, thread: Some(thread), library: kept };
        if !loads_behind_our_back {
            house.wait_until("ready", |house| house.get("/health").status == 200);
        }
        house
    }
}

impl House {
    /// A server of one fixture with default options.
    pub fn of(fixture: &'static str) -> House {
        Plan::of(&[fixture]).start()
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_bytes(path, body.to_string().as_bytes())
    }

    pub fn post_bytes(&self, path: &str, body: &[u8]) -> Reply {
        self.send("POST", path, &[("Content-Type", "application/json")], body)
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.open(method, path, headers, body).finish()
    }

    pub fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Exchange {
        Exchange::open(self.address, &request(method, path, headers, body))
    }

    /// Posts and leaves the reply to be read.
    pub fn open_post(&self, path: &str, body: &Value) -> Exchange {
        let headers = [("Content-Type", "application/json")];
        self.open("POST", path, &headers, body.to_string().as_bytes())
    }

    /// Posts what must succeed.
    pub fn ask(&self, path: &str, body: Value) -> Value {
        let reply = self.post(path, &body);
        assert_eq!(reply.status, 200, "{body}: {}", reply.text());
        reply.json()
    }

    /// A greedy completion of token ids: the ids that follow.
    pub fn continue_greedily(&self, model: &str, prompt: &[u32], tokens: u32) -> Value {
        let body = json!({"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true});
        self.ask("/v1/completions", body)["choices"][0]["token_ids"].clone()
    }

    /// The model, seen past the server.
    pub fn model(&self, fixture: &str) -> Model {
        self.library.get(fixture).unwrap()
    }

    /// One number of `/metrics`.
    pub fn metric(&self, line: &str) -> f64 {
        let text = self.get("/metrics").text();
        let found = text.lines().find_map(|sample| sample.strip_prefix(line)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
    }

    /// Asks again and again until it holds; the test's own patience is the only limit.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&House) -> bool) {
        for _ in 0..60_000 {
            if holds(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("{what} never came");
    }

    /// Sends one termination signal.
    pub fn signal(&self) {
        let _ = self.signals.send(());
    }

    /// Waits for the server to end.
    pub fn ending(mut self) -> Ending {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.gate.open();
        self.signal();
        self.signal();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}
