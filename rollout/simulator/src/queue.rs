//! The event queue, ordered by time; events at the same time are ordered by insertion.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use muster_rollout::Millis;

/// The pending events.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    order: BinaryHeap<Reverse<(Millis, u64)>>,
    events: BTreeMap<u64, E>,
    pushed: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self {
            order: BinaryHeap::new(),
            events: BTreeMap::new(),
            pushed: 0,
        }
    }
}

impl<E> Queue<E> {
    pub(crate) fn push(&mut self, at: Millis, event: E) {
        self.pushed += 1;
        self.order.push(Reverse((at, self.pushed)));
        self.events.insert(self.pushed, event);
    }

    /// The time of the next event.
    pub(crate) fn next_at(&self) -> Option<Millis> {
        self.order.peek().map(|Reverse((at, _))| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Millis, E)> {
        let Reverse((at, number)) = self.order.pop()?;
        Some((at, self.events.remove(&number)?))
    }

    /// Keeps only the events that match.
    pub(crate) fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        self.events.retain(|_, event| keep(event));
        let events = &self.events;
        self.order
            .retain(|Reverse((_, number))| events.contains_key(number));
    }
}
