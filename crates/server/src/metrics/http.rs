//! Counts of HTTP replies.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Replies by route, method and status.
#[derive(Debug, Default)]
pub struct HttpCounters(Mutex<BTreeMap<Key, u64>>);

type Key = (String, String, u16);

impl HttpCounters {
    /// Counts a reply. `route` is a pattern of the router, so that there are few of them.
    pub fn count(&self, route: &str, method: &str, status: u16) {
        // Methods are the client's to invent.
        let method = match method {
            "GET" | "HEAD" | "POST" | "OPTIONS" => method,
            _ => "other",
        };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((route.to_owned(), method.to_owned(), status)).or_default() += 1;
    }

    /// All counts.
    pub fn snapshot(&self) -> Vec<(Key, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(key, count)| (key.clone(), *count)).collect()
    }
}
