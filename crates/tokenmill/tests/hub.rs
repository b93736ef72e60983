//! Pulls against a hub on this machine that can be told to misbehave.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{fs, path::Path, time::Duration};

use testkit::hub::{File, MockHub, sha256};
use tokenmill::hub::{Cache, Error as HubError, HubOptions, PullEvent, Pulled, pull};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_secret";

fn options(hub: &MockHub, cache: &Path) -> HubOptions {
    HubOptions {
        endpoint: hub.url(),
        token: Some(TOKEN.to_owned()),
        cache_dir: cache.to_owned(),
        retries: 2,
        backoff: Duration::ZERO,
    }
}

fn weights() -> Vec<u8> {
    (0..300_000u32).flat_map(u32::to_le_bytes).collect()
}

fn repository() -> Vec<File> {
    vec![
        File::small("config.json", b"{}"),
        File::small("1_Pooling/config.json", b"{\"a\": 1}"),
        File::small("README.md", b"# not needed"),
        File::large("model.safetensors", weights()),
    ]
}

fn pull_all(hub: &MockHub, cache: &Path) -> Result<Pulled, HubError> {
    pull("org/name", &options(hub, cache), &mut |_| true)
}

fn check(pulled: &Pulled) {
    assert_eq!(fs::read(pulled.path.join("config.json")).unwrap(), b"{}");
    assert_eq!(fs::read(pulled.path.join("1_Pooling/config.json")).unwrap(), b"{\"a\": 1}");
    assert!(fs::read(pulled.path.join("model.safetensors")).unwrap() == weights());
    assert!(!pulled.path.join("README.md").exists());
}

/// The partial file of the weights.
fn partial(cache: &Path) -> std::path::PathBuf {
    cache.join(format!("models--org--name/blobs/{}.incomplete", sha256(&weights())))
}

#[test]
fn a_fresh_pull_lays_out_the_cache_and_a_second_one_loads_nothing() {
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    let mut events = Vec::new();
    let pulled = pull("org/name", &options(&hub, cache.path()), &mut |event| {
        // However long the hub takes.
        events.extend(Some(event).filter(|event| *event != PullEvent::Tick));
        true
    })
    .unwrap();
    check(&pulled);
    let bytes = weights().len() as u64 + 2 + 8;
    assert_eq!((pulled.downloaded, pulled.cached), (bytes, 0));
    assert_eq!(events[0], PullEvent::Plan { commit: COMMIT.into(), files: 3, bytes });
    assert!(matches!(events.last(), Some(PullEvent::Done { cached: false, .. })));
    let root = cache.path().join("models--org--name");
    assert_eq!(pulled.path, root.join("snapshots").join(COMMIT));
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    let link = fs::read_link(pulled.path.join("model.safetensors")).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(sha256(&weights())));
    let found = Cache::new(cache.path()).find(&"org/name".parse().unwrap());
    assert_eq!(found.as_ref(), Some(&pulled.path));

    let loaded = hub.count("GET", "/resolve/");
    let again = pull_all(&hub, cache.path()).unwrap();
    assert_eq!((again.downloaded, again.cached), (0, bytes));
    assert_eq!(hub.count("GET", "/resolve/"), loaded);
}

#[test]
fn a_cut_connection_is_resumed_where_it_broke() {
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    hub.cut("model.safetensors", 500_000);
    check(&pull_all(&hub, cache.path()).unwrap());
    assert!(hub.seen().iter().any(|request| request.range.as_deref() == Some("bytes=500000-")));
}

#[test]
fn a_later_pull_goes_on_where_an_earlier_one_ended() {
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    fs::create_dir_all(partial(cache.path()).parent().unwrap()).unwrap();
    fs::write(partial(cache.path()), &weights()[..123_456]).unwrap();
    check(&pull_all(&hub, cache.path()).unwrap());
    assert!(hub.seen().iter().any(|request| request.range.as_deref() == Some("bytes=123456-")));
    assert!(!partial(cache.path()).exists());
}

#[test]
fn a_server_without_ranges_sends_the_whole_file_again() {
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    hub.ignore_ranges();
    hub.cut("model.safetensors", 500_000);
    check(&pull_all(&hub, cache.path()).unwrap());
}

#[test]
fn cancelling_keeps_the_bytes_for_the_next_pull() {
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    hub.cut("model.safetensors", 500_000);
    let error = pull("org/name", &options(&hub, cache.path()), &mut |event| {
        !matches!(event, PullEvent::Retry { .. })
    });
    assert!(matches!(error, Err(HubError::Cancelled)), "{error:?}");
    assert_eq!(fs::metadata(partial(cache.path())).unwrap().len(), 500_000);
    assert_eq!(Cache::new(cache.path()).find(&"org/name".parse().unwrap()), None);
    check(&pull_all(&hub, cache.path()).unwrap());
}

#[test]
fn wrong_bytes_are_refused_and_removed() {
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    hub.corrupt("model.safetensors");
    let error = pull_all(&hub, cache.path()).unwrap_err();
    assert!(matches!(error, HubError::Checksum { what: "sha256", .. }), "{error}");
    assert!(!partial(cache.path()).exists());
    assert_eq!(Cache::new(cache.path()).find(&"org/name".parse().unwrap()), None);

    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    hub.corrupt("config.json");
    let error = pull_all(&hub, cache.path()).unwrap_err();
    assert!(matches!(error, HubError::Checksum { what: "git sha1", .. }), "{error}");
}

#[test]
fn refusals_say_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let hub = MockHub::start(COMMIT, repository());
    for (status, wanted) in [
        (401, "the token that was sent is not valid"),
        (403, "accept the checkpoint's terms"),
        (404, "check the name and the revision"),
    ] {
        hub.answer_everything(status);
        let error = pull_all(&hub, cache.path()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{status}: {error}");
    }
    let no_token = HubOptions { token: None, ..options(&hub, cache.path()) };
    hub.answer_everything(401);
    let error = pull("org/name", &no_token, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("set HF_TOKEN"), "{error}");
    assert!(!error.contains(TOKEN));
}

#[test]
fn a_busy_hub_is_asked_again_and_then_given_up() {
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    hub.answer_everything(503);
    let mut retries = 0;
    let error = pull("org/name", &options(&hub, cache.path()), &mut |event| {
        retries += usize::from(matches!(event, PullEvent::Retry { .. }));
        true
    });
    assert!(matches!(error, Err(HubError::Transfer { attempts: 3, .. })), "{error:?}");
    assert_eq!(retries, 2);
}

#[test]
fn the_token_stays_with_the_hub_when_a_redirect_leads_away() {
    let store = MockHub::start(COMMIT, repository());
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    hub.redirect_weights_to(&store);
    check(&pull_all(&hub, cache.path()).unwrap());
    let bearer = format!("Bearer {TOKEN}");
    assert!(hub.seen().iter().all(|request| request.authorization.as_ref() == Some(&bearer)));
    let at_store = store.seen();
    assert_eq!(at_store.len(), 1, "the store is asked once, for the bytes");
    assert_eq!(at_store[0].authorization, None);
}

#[test]
fn file_names_that_would_leave_the_snapshot_are_refused() {
    let mut files = repository();
    files.push(File::small("../../../evil.json", b"{}"));
    let (hub, cache) = (MockHub::start(COMMIT, files), tempfile::tempdir().unwrap());
    let error = pull_all(&hub, cache.path()).unwrap_err().to_string();
    assert!(error.contains("would leave the snapshot"), "{error}");
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
}

#[test]
fn pulls_at_once_load_every_file_once() {
    let (hub, cache) = (MockHub::start(COMMIT, repository()), tempfile::tempdir().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check(&pull_all(&hub, cache.path()).unwrap()));
        }
    });
    assert_eq!(hub.count("GET", "/resolve/"), 3);
}
