//! Finds, loads and keeps models.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

use foundation::{
    Bytes, ModelId,
    model::{ModelManifest, WeightOrigin},
};
use runtime::{backend::Backend, progress::ProgressEvent};
use serde::Serialize;

use crate::{
    backends::Backends,
    builtin,
    config::Environment,
    device::DeviceChoice,
    error::{Error, Result},
    hub::{Cache, HubReference, Leftover, bytes_under},
    inspect::InspectReport,
    load,
    model::Model,
    options::ModelOptions,
    settings,
};

/// How a library finds and runs models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryOptions {
    /// The cache of hub checkpoints; `None`: `HF_HUB_CACHE`, `HF_HOME` or `~/.cache/huggingface/hub`.
    pub cache_dir: Option<PathBuf>,
    /// Where models are computed.
    pub device: DeviceChoice,
    /// Where built-in models are put, and what was found out about this machine; `None`: `tokenmill` in `XDG_CACHE_HOME` or
    /// `~/.cache`.
    pub built_in_dir: Option<PathBuf>,
}

/// A checkpoint in the hub cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LocalModel {
    /// ORG/NAME.
    pub name: String,
    /// The revision: `main` if the cache has it.
    pub revision: String,
    /// Its commit.
    pub commit: String,
    /// The checkpoint directory.
    pub path: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Finds models, loads them, and keeps those that are loaded by id. Clones share one registry.
#[derive(Clone)]
pub struct Library {
    inner: Arc<Inner>,
}

struct Inner {
    cache: Option<Cache>,
    device: DeviceChoice,
    /// Looked for when they are first needed: opening a GPU takes a moment, and not every command runs a model.
    backends: OnceLock<Backends>,
    place: builtin::Place,
    /// Where what was found out about this machine is kept.
    own_cache: Option<PathBuf>,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    /// In the order in which they were loaded.
    models: Vec<Model>,
    /// Names of models being loaded.
    loading: Vec<ModelId>,
}

impl Library {
    /// A library over this machine's backends. They are looked for when they are first needed, but for a device that is
    /// wanted by name.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] where the chosen device cannot be had, and why.
    pub fn new(options: LibraryOptions) -> Result<Self> {
        let library = Self::make(options, OnceLock::new());
        if library.inner.device == DeviceChoice::Cuda {
            library.backends().choose(DeviceChoice::Cuda)?;
        }
        Ok(library)
    }

    /// A library over the given backends, best first.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] where the chosen device is not among them.
    pub fn with_backends(options: LibraryOptions, backends: Vec<Arc<dyn Backend>>) -> Result<Self> {
        let library = Self::make(options, Backends::given(backends).into());
        library.backends().choose(library.inner.device)?;
        Ok(library)
    }

    fn make(options: LibraryOptions, backends: OnceLock<Backends>) -> Self {
        let environment = Environment::of_process();
        let cache_dir = options.cache_dir.or_else(|| environment.cache_dir());
        let own_cache = options.built_in_dir.or_else(|| environment.own_cache());
        let inner = Inner {
            cache: cache_dir.map(Cache::new),
            device: options.device,
            backends,
            place: builtin::Place::new(own_cache.clone()),
            own_cache,
            registry: Mutex::default(),
        };
        Library { inner: Arc::new(inner) }
    }

    fn backends(&self) -> &Backends {
        let Inner { device, own_cache, .. } = &*self.inner;
        self.inner.backends.get_or_init(|| Backends::of_this_machine(*device, own_cache.clone()))
    }

    /// Loads a model and registers it. `progress` returns `false` to cancel; a failed or cancelled load gives every
    /// byte back.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::AlreadyLoaded`], [`Error::InvalidOption`], [`Error::Load`] with every finding, or
    /// [`Error::Cancelled`].
    pub fn load(
        &self,
        reference: &str,
        options: ModelOptions,
        progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<Model> {
        let manifest = self.manifest(reference, &options)?;
        let reservation = Reservation::take(self, manifest.id.clone())?;
        // A GPU is opened while the tokenizer is read: both take a moment.
        let (opened, backends) = thread::scope(|scope| {
            let backends = scope.spawn(|| self.backends());
            let opened = load::open(&manifest, &options, progress);
            let opened = opened.and_then(|opened| {
                load::prepare(progress, "opening the device")?;
                Ok(opened)
            });
            // A panic there is a panic here.
            (opened, backends.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let opened = opened?;
        let (backend, why) = backends.choose(self.inner.device)?;
        let device = settings::device(self.inner.device, backend.name(), why, &options);
        let model = load::load(opened, backend.as_ref(), &manifest, &options, device, progress)?;
        reservation.fill(model.clone());
        Ok(model)
    }

    /// The loaded model of that id.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the text names those that are loaded.
    pub fn get(&self, id: &str) -> Result<Model> {
        let registry = self.registry();
        let found = registry.models.iter().find(|model| model.id().0 == id);
        found.cloned().ok_or_else(|| registry.no_model(id))
    }

    /// The loaded models, in the order in which they were loaded.
    pub fn loaded(&self) -> Vec<Model> {
        self.registry().models.clone()
    }

    /// Takes a model out of the registry, cancels what it runs and frees its memory; clones of the [`Model`] answer
    /// [`Error::Draining`] from then on. Gives the bytes that were freed.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn unload(&self, id: &ModelId) -> Result<Bytes> {
        let mut registry = self.registry();
        let index = registry.models.iter().position(|model| model.id() == id);
        let index = index.ok_or_else(|| registry.no_model(&id.0))?;
        let model = registry.models.remove(index);
        // Freeing waits for the running step: not under the lock.
        drop(registry);
        Ok(model.free())
    }

    /// The checkpoint directory that `reference` means: the name of a built-in model (a directory of that name is
    /// written `./NAME`), a directory with `config.json`, or ORG/NAME (with `@REVISION`) in the hub cache.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the text says what was looked for and how to get it.
    pub fn resolve(&self, reference: &str) -> Result<PathBuf> {
        if let Some(model) = builtin::find(reference) {
            return self.inner.place.directory(&model);
        }
        let path = Path::new(reference);
        if path.is_dir() {
            return Ok(path.to_owned());
        }
        let Ok(name) = reference.parse::<HubReference>() else {
            let problem = if path.exists() { "is not a directory" } else { "does not exist" };
            return Err(Error::NotFound(format!(
                "{reference} {problem}, and it is no hub name (ORG/NAME){}",
                built_in_names()
            )));
        };
        let found = self.inner.cache.as_ref().and_then(|cache| cache.find(&name));
        found.ok_or_else(|| {
            let problem =
                if path.exists() { "it is not a directory" } else { "there is no such directory" };
            Error::NotFound(format!("{}; as a path, {problem}", self.not_cached(&name)))
        })
    }

    /// The cache of hub checkpoints, if a place for it is known.
    pub fn cache_dir(&self) -> Option<&Path> {
        self.inner.cache.as_ref().map(Cache::root)
    }

    /// The checkpoints in the hub cache, by name.
    ///
    /// # Errors
    /// The cache exists and cannot be read.
    pub fn local_models(&self) -> Result<Vec<LocalModel>> {
        let Some(cache) = &self.inner.cache else { return Ok(Vec::new()) };
        let models = cache.models()?.into_iter().map(|model| LocalModel {
            name: model.repository,
            revision: model.revision,
            commit: model.commit,
            bytes: bytes_under(&model.path),
            path: model.path,
        });
        Ok(models.collect())
    }

    /// What pulls left in the hub cache that did not come to their end, by name.
    ///
    /// # Errors
    /// The cache exists and cannot be read.
    pub fn leftovers(&self) -> Result<Vec<Leftover>> {
        Ok(self.inner.cache.as_ref().map(Cache::leftovers).transpose()?.unwrap_or_default())
    }

    /// Removes every revision of a checkpoint from the hub cache. Gives the bytes that were freed.
    ///
    /// # Errors
    /// [`Error::NotFound`], or a file that cannot be removed.
    pub fn remove_local(&self, name: &str) -> Result<Bytes> {
        let reference: HubReference = name.parse()?;
        let removed = match &self.inner.cache {
            Some(cache) => cache.remove(&reference)?,
            None => None,
        };
        removed.map(Bytes).ok_or_else(|| Error::NotFound(self.not_cached(&reference)))
    }

    /// What a checkpoint is, what it needs, and which backend can run it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; everything else is in the report.
    pub fn inspect(&self, reference: &str, options: &ModelOptions) -> Result<InspectReport> {
        let manifest = self.manifest(reference, options)?;
        Ok(crate::inspect::report(&manifest, options, self.backends()))
    }

    fn manifest(&self, reference: &str, options: &ModelOptions) -> Result<ModelManifest> {
        let path = self.resolve(reference)?;
        let id = options.id.clone().unwrap_or_else(|| default_id(reference, &path));
        let context_len = options.max_sequence_tokens.map(u32::try_from).transpose();
        let context_len = context_len.map_err(|_| Error::InvalidOption {
            option: "max_sequence_tokens",
            message: format!("more than {} tokens", u32::MAX),
        })?;
        let weights = options.synthetic.map_or(WeightOrigin::Files, |synthetic| {
            WeightOrigin::Synthetic { seed: synthetic.seed, dtype: synthetic.dtype }
        });
        let ignored_config_keys = options.ignored_config_keys.clone();
        Ok(ModelManifest { id: ModelId(id), path, weights, context_len, ignored_config_keys })
    }

    fn not_cached(&self, name: &HubReference) -> String {
        let place = match &self.inner.cache {
            Some(cache) => format!("not in the cache {}", cache.root().display()),
            None => "nowhere: no cache directory is known".to_owned(),
        };
        let others = self.inner.cache.as_ref().map(|cache| cache.revisions(name));
        let others = others.filter(|names| !names.is_empty());
        let others = others.map(|names| format!(" (it has {})", names.join(", ")));
        let others = others.unwrap_or_default();
        format!("{name} is {place}{others}: pull it first{}", self.did_you_mean(name))
    }

    /// The cached model whose name is most like the one that was asked for.
    fn did_you_mean(&self, name: &HubReference) -> String {
        let cached = self.inner.cache.as_ref().and_then(|cache| cache.models().ok());
        let asked = name.repository();
        let likeness =
            |known: &str| strsim::jaro_winkler(&asked.to_lowercase(), &known.to_lowercase());
        let names = cached.unwrap_or_default().into_iter().map(|model| model.repository);
        names
            .filter(|known| *known != asked)
            .map(|known| (likeness(&known), known))
            .filter(|(likeness, _)| *likeness > 0.85)
            .max_by(|left, right| left.0.total_cmp(&right.0))
            .map_or(String::new(), |(_, known)| format!(", or did you mean {known}?"))
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        // Every change of the registry is a single push or remove: a panic elsewhere leaves it whole.
        self.inner.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    fn no_model(&self, id: &str) -> Error {
        let names: Vec<&str> = self.models.iter().map(|model| model.id().0.as_str()).collect();
        let names = if names.is_empty() { "none is".to_owned() } else { names.join(", ") };
        Error::NotFound(format!("no model named {id:?} is loaded (loaded: {names})"))
    }
}

/// A name kept free while its model is loaded; given back by Drop.
struct Reservation<'l> {
    library: &'l Library,
    id: ModelId,
}

impl<'l> Reservation<'l> {
    fn take(library: &'l Library, id: ModelId) -> Result<Self> {
        let mut registry = library.registry();
        let taken =
            registry.loading.contains(&id) || registry.models.iter().any(|model| *model.id() == id);
        if taken {
            return Err(Error::AlreadyLoaded(id));
        }
        registry.loading.push(id.clone());
        Ok(Reservation { library, id })
    }

    fn fill(self, model: Model) {
        self.library.registry().models.push(model);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.library.registry().loading.retain(|id| *id != self.id);
    }
}

/// `; built in: demo`, or nothing in a build without such models.
fn built_in_names() -> String {
    let names: Vec<&str> = builtin::all().iter().map(|model| model.name).collect();
    if names.is_empty() { String::new() } else { format!("; built in: {}", names.join(", ")) }
}

/// The reference itself for a built-in or hub name, the last part of a path.
fn default_id(reference: &str, path: &Path) -> String {
    if builtin::find(reference).is_some() || !Path::new(reference).is_dir() {
        return reference.to_owned();
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.file_name().map_or_else(|| reference.to_owned(), |n| n.to_string_lossy().into_owned())
}
