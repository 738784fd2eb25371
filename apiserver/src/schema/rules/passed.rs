//! Cache of values that passed their rules: when one item of a long list changes, the others are not evaluated again.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

use parking_lot::Mutex;
use serde_json::Value;

/// Maximum number per list; beyond it the cache is cleared.
const MOST: usize = 16_384;

/// Hashes of values that were evaluated with equal old and new value and violated no rule of their schema: the result
/// depends on nothing else.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    hasher: RandomState,
    prints: Mutex<HashSet<u64>>,
}

impl Passed {
    pub(in super::super) fn print(&self, value: &Value) -> u64 {
        self.hasher.hash_one(value)
    }

    pub(in super::super) fn has(&self, print: u64) -> bool {
        self.prints.lock().contains(&print)
    }

    pub(in super::super) fn add(&self, print: u64) {
        let mut prints = self.prints.lock();
        if prints.len() >= MOST {
            prints.clear();
        }
        prints.insert(print);
    }
}
