//! What all requests share: the models, the stage of the server's life, the counters.

use std::{
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{SystemTime, UNIX_EPOCH},
};

use tokenmill::Model;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{ServerOptions, body::BodyMemory, error::ApiError, metrics::HttpCounters};

/// Memory for the bodies of requests, in bodies of the greatest length. What is small is bounded by the number of connections.
const LARGE_BODIES: usize = 8;

/// What all requests share.
#[derive(Debug)]
pub struct ServerState {
    pub(crate) options: ServerOptions,
    pub(crate) http: HttpCounters,
    /// Taken by all work on large requests and large replies: parsing, templates, tokenizers, writing.
    preparing: Semaphore,
    /// Taken by large bodies as they arrive.
    pub(crate) body_memory: BodyMemory,
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    stage: Stage,
    models: Vec<ServedModel>,
}

/// Where the server stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Models are being loaded.
    Loading,
    /// Requests are served.
    Ready,
    /// What runs is finished, nothing new is taken.
    Draining,
}

/// A model and the names it goes by.
#[derive(Clone, Debug)]
pub struct ServedModel {
    /// The model.
    pub model: Model,
    /// Names that requests may use; replies carry the first.
    pub names: Vec<String>,
    /// When it was loaded, in seconds since 1970.
    pub loaded_at: u64,
}

impl ServedModel {
    /// The name that replies carry.
    pub fn name(&self) -> &str {
        self.names.first().map_or_else(|| self.model.id().0.as_str(), String::as_str)
    }

    fn problem(&self) -> Option<String> {
        let health = self.model.health();
        let why = health.problem.unwrap_or_else(|| "takes no requests".to_owned());
        (!health.ok).then(|| format!("{}: {why}", self.name()))
    }
}

impl ServerState {
    /// The state of a server whose models are still to come.
    pub fn new(options: ServerOptions) -> Arc<ServerState> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let body_memory = BodyMemory::new(LARGE_BODIES, options.max_body.0);
        Arc::new(ServerState {
            options,
            http: HttpCounters::default(),
            preparing: Semaphore::new(cores),
            body_memory,
            inner: RwLock::new(Inner { stage: Stage::Loading, models: Vec::new() }),
        })
    }

    /// Begins to serve these models. Does nothing once the server drains.
    pub fn publish(&self, models: Vec<Model>) {
        let mut inner = self.write();
        if inner.stage == Stage::Draining {
            return;
        }
        let only = models.len() == 1;
        inner.models = models.into_iter().map(|model| self.name(model, only)).collect();
        inner.stage = Stage::Ready;
    }

    /// The turn of a piece of `large` work, of which one is done for each processor at a time, so that it never stands in
    /// the way of all the others; small work needs none.
    pub async fn turn(&self, large: bool) -> Result<Option<SemaphorePermit<'_>>, ApiError> {
        match large {
            true => self.preparing.acquire().await.map(Some).map_err(|_| ApiError::draining()),
            false => Ok(None),
        }
    }

    /// Takes nothing new from now on; what runs goes on.
    pub fn drain(&self) {
        let mut inner = self.write();
        inner.stage = Stage::Draining;
        for served in &inner.models {
            served.model.drain();
        }
    }

    /// Where the server stands.
    pub fn stage(&self) -> Stage {
        self.read().stage
    }

    /// The models, in the order in which they were loaded.
    pub fn models(&self) -> Vec<ServedModel> {
        self.read().models.clone()
    }

    /// What is wrong with the models that cannot serve, each with its name.
    pub fn problems(&self) -> Vec<String> {
        self.read().models.iter().filter_map(ServedModel::problem).collect()
    }

    /// The same of those that will never serve again.
    pub fn losses(&self) -> Vec<String> {
        let inner = self.read();
        let lost = inner.models.iter().filter(|served| served.model.health().lost);
        lost.filter_map(ServedModel::problem).collect()
    }

    /// The model that a request means. Without a name it is the only one.
    pub fn find(&self, name: Option<&str>) -> Result<ServedModel, ApiError> {
        let inner = self.read();
        match inner.stage {
            Stage::Loading => return Err(ApiError::loading()),
            Stage::Draining => return Err(ApiError::draining()),
            Stage::Ready => {}
        }
        let known = || -> Vec<String> {
            inner.models.iter().flat_map(|served| served.names.iter().cloned()).collect()
        };
        match (name, &inner.models[..]) {
            (None, [only]) => Ok(only.clone()),
            (None, _) => Err(ApiError::model_missing(&known())),
            (Some(name), models) => models
                .iter()
                .find(|served| served.names.iter().any(|known| known == name))
                .cloned()
                .ok_or_else(|| ApiError::no_model(name, &known())),
        }
    }

    /// The only model goes by all names that were given; each of several was loaded under its own.
    fn name(&self, model: Model, only: bool) -> ServedModel {
        let names = match &self.options.served_names[..] {
            names if only && !names.is_empty() => names.to_vec(),
            _ => vec![model.id().0.clone()],
        };
        ServedModel { model, names, loaded_at: unix_seconds() }
    }

    // A panic elsewhere leaves a stage and a list that are whole: each is written in one assignment.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
