//! Values of which the rules are known to have nothing to say: a list of a hundred items, of which one changed, is not evaluated whole.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

use parking_lot::Mutex;
use serde_json::Value;

/// How many are known at once, of each list; they begin anew when there are more.
const MOST: usize = 16_384;

/// Hashes of values that stood for themselves (old and new were equal) and broke no rule of their schema: whether they do depends on
/// nothing else.
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
