//! The life of the server: listen, load, serve, drain, end.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use futures::{Stream, StreamExt};
use hyper::{
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokenmill::Model;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream, lookup_host},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{ServerOptions, routes, state::ServerState};

/// Largest head of a request (request line and headers), in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// After a failure to accept (no file descriptors left, say): how long to wait before the next attempt.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// For how long a connection that has asked nothing yet may still do so when the server is told to end.
const FIRST_WORD: Duration = Duration::from_millis(250);

/// How often the models are looked after.
const LOSS_PAUSE: Duration = Duration::from_millis(100);

/// Why the server did not start, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}; choose another with --host and --port")]
    Bind {
        /// What was asked for.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// Options that contradict one another.
    #[error("{0}")]
    Options(String),
    /// The models could not be loaded.
    #[error(transparent)]
    Load(#[from] tokenmill::Error),
    /// A defect while loading.
    #[error("loading ended with a panic; see the log")]
    LoadPanicked,
}

/// How serving ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every request that ran was answered.
    Drained,
    /// Time ran out, or a second signal came: what still ran was cut off.
    CutOff,
    /// A model was lost, and says why: its device failed. What ran on other models was finished, as far as there was time.
    Lost(String),
}

/// A server that listens. Until models are published every request but the health check's is refused with 503.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    state: Arc<ServerState>,
}

/// Listens, loads models with `load` on a thread of its own, serves them, and ends at the first of `signals` when what
/// runs has finished, or at the second at once.
///
/// `on_listening` hears where the server listens, before anything is loaded.
pub async fn serve(
    options: ServerOptions,
    load: impl FnOnce() -> Result<Vec<Model>, tokenmill::Error> + Send + 'static,
    signals: impl Stream<Item = ()> + Send + Unpin,
    on_listening: impl FnOnce(SocketAddr),
) -> Result<Ending, ServeError> {
    let server = Server::bind(options).await?;
    on_listening(server.address());
    let state = server.state();
    let loading = async move {
        let loaded = tokio::task::spawn_blocking(load).await;
        let models = loaded.map_err(|_| ServeError::LoadPanicked)??;
        state.publish(models);
        Ok::<_, ServeError>(())
    };
    let serving = server.run(signals);
    tokio::pin!(serving);
    tokio::select! {
        loaded = loading => loaded?,
        // Told to end while loading: there is nothing to drain.
        ending = &mut serving => return Ok(ending),
    }
    Ok(serving.await)
}

/// SIGTERM, SIGINT and SIGHUP (a terminal that closes), as they come.
pub fn termination_signals() -> io::Result<impl Stream<Item = ()> + Send + Unpin> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let any = futures::stream::poll_fn(move |context| {
        let mut signals = [&mut terminate, &mut interrupt, &mut hangup].into_iter();
        match signals.any(|signal| signal.poll_recv(context).is_ready()) {
            true => std::task::Poll::Ready(Some(())),
            false => std::task::Poll::Pending,
        }
    });
    Ok(any)
}

impl Server {
    /// Listens, without serving anything yet.
    pub async fn bind(options: ServerOptions) -> Result<Server, ServeError> {
        if let Some(strange) = options.cors_origins.iter().find(|origin| !routes::is_origin(origin))
        {
            return Err(ServeError::Options(format!(
                "--cors-origin {strange:?} is no origin: write it as browsers do (https://host or https://host:port, in \
                 lower case, nothing behind), or * for all"
            )));
        }
        // Those of a header are the only ones that a client can present.
        let is_key =
            |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !options.api_keys.iter().all(is_key) {
            return Err(ServeError::Options(
                "--api-key takes visible ASCII characters without spaces: no client could present another key"
                    .to_owned(),
            ));
        }
        let address = format!("{}:{}", bracketed(&options.host), options.port);
        let bound = async {
            let listener = listen(&address).await?;
            let local = listener.local_addr()?;
            Ok((listener, local))
        };
        let (listener, local) =
            bound.await.map_err(|source| ServeError::Bind { address, source })?;
        Ok(Server { listener, address: local, state: ServerState::new(options) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its requests share.
    pub fn state(&self) -> Arc<ServerState> {
        self.state.clone()
    }

    /// Serves until the first of `signals`, or until a model is lost and the time to hear of it is over; then drains: running
    /// requests finish, new ones get 503. The second signal, or the drain time-out, cuts off what still runs.
    pub async fn run(self, mut signals: impl Stream<Item = ()> + Send + Unpin) -> Ending {
        let options = &self.state.options;
        let house = House {
            router: routes::router(self.state.clone()),
            places: Arc::new(Semaphore::new(options.max_connections)),
            header_timeout: options.header_timeout,
        };
        let drain_timeout = options.drain_timeout;
        let (drain, draining) = watch::channel(false);
        let mut guests = JoinSet::new();
        let lost = tokio::select! {
            () = house.receive(&self.listener, &mut guests, &draining) => None,
            _ = signals.next() => None,
            lost = loss(&self.state) => Some(lost),
        };
        while guests.try_join_next().is_some() {}
        tracing::info!(connections = guests.len(), "draining");
        self.state.drain();
        drain.send_replace(true);
        // Late guests hear that the server is leaving, but nobody waits for them.
        let mut late = JoinSet::new();
        let ending = tokio::select! {
            () = house.receive(&self.listener, &mut late, &draining) => Ending::CutOff,
            () = all_gone(&mut guests) => Ending::Drained,
            _ = signals.next() => Ending::CutOff,
            () = sleep(drain_timeout) => Ending::CutOff,
        };
        lost.map_or(ending, Ending::Lost)
    }
}

/// Waits until a model is lost, and then until everybody who asks has had the time to hear of it.
async fn loss(state: &ServerState) -> String {
    loop {
        let lost = state.losses();
        if !lost.is_empty() {
            let (lost, linger) = (lost.join("; "), state.options.fault_linger);
            tracing::error!(lost, ?linger, "a model is lost: the server will end");
            sleep(linger).await;
            return lost;
        }
        sleep(LOSS_PAUSE).await;
    }
}

/// What every connection needs.
struct House {
    router: Router,
    places: Arc<Semaphore>,
    header_timeout: Duration,
}

impl House {
    /// Takes connections in, one task each. Never ends.
    async fn receive(
        &self,
        listener: &TcpListener,
        guests: &mut JoinSet<()>,
        draining: &watch::Receiver<bool>,
    ) {
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else { return };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            while guests.try_join_next().is_some() {}
            guests.spawn(self.host(stream, place, draining.clone()));
        }
    }

    /// Serves one connection. On the word to drain it ends after the request that it is at.
    fn host(
        &self,
        stream: TcpStream,
        place: OwnedSemaphorePermit,
        mut draining: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let asked = Arc::new(AtomicBool::new(false));
        let service = {
            let (asked, router) = (asked.clone(), TowerToHyperService::new(self.router.clone()));
            service_fn(move |request| {
                asked.store(true, Ordering::Relaxed);
                router.call(request)
            })
        };
        let late = *draining.borrow_and_update();
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_buf_size(MAX_HEAD_BYTES)
            .keep_alive(!late);
        async move {
            let _place = place;
            // Tokens are small writes that must not wait for one another.
            let _ = stream.set_nodelay(true);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                // It changes once: when draining begins, or when the server is gone.
                _ = draining.changed(), if !late => {
                    // Who has only just come in is about to ask, and shall hear that the server is leaving.
                    let patience = if asked.load(Ordering::Relaxed) { Duration::ZERO } else { FIRST_WORD };
                    match timeout(patience, connection.as_mut()).await {
                        Ok(ended) => ended,
                        Err(_) => {
                            connection.as_mut().graceful_shutdown();
                            connection.await
                        }
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke off");
            }
        }
    }
}

async fn all_gone(guests: &mut JoinSet<()>) {
    while guests.join_next().await.is_some() {}
}

/// An IPv6 address needs brackets before a port.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}
/// Connections that the system completes before they are accepted; it takes no more than it is set to (`net.core.somaxconn`). With
/// the usual 128 a burst of clients loses its first packets, and each waits a second before it sends them again.
const BACKLOG: u32 = 4096;

/// Listens on the first of `address`'s meanings that can be had.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut refused = None;
    for address in lookup_host(address).await? {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        match bound() {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = Some(error),
        }
    }
    let nothing = || io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    Err(refused.unwrap_or_else(nothing))
}
