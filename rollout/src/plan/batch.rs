//! Rule 11: the next batch opens when the last one is confirmed, and is larger.

use super::Pass;
use crate::OpenBatch;

impl Pass<'_> {
    /// Units in flight for a previous target when a run starts are part of its first batch.
    pub(super) fn begin_batches(&mut self) {
        if self.memory.course.batch.is_none() && self.in_flight_count() > 0 {
            self.memory.course.batch = self.batch();
        }
    }

    /// The open batch, or the one that may be opened now.
    pub(super) fn batch(&self) -> Option<OpenBatch> {
        let batch = self.spec.batch.filter(|_| self.open_run().is_some())?;
        let largest = batch.max.max(1);
        let of = |size: u32| {
            let size = size.clamp(1, largest);
            OpenBatch { size, left: size }
        };
        Some(match self.memory.course.batch {
            None => OpenBatch {
                left: of(batch.start).left.saturating_sub(self.in_flight_count()),
                ..of(batch.start)
            },
            Some(last) if last.left == 0 && self.in_flight_count() == 0 => {
                of(last.size.saturating_mul(batch.factor))
            }
            Some(open) => open,
        })
    }

    /// A unit of the open batch was not started after all: its slot is free.
    pub(super) fn free_place(&mut self) {
        if let Some(open) = &mut self.memory.course.batch {
            open.left = open.left.saturating_add(1).min(open.size);
        }
    }

    /// Counts a unit as started.
    pub(super) fn take_place(&mut self) {
        if let Some(open) = &mut self.memory.course.batch {
            open.left = open.left.saturating_sub(1);
        }
    }

    /// The size of the open batch, if it is full.
    pub(super) fn full_batch(&self) -> Option<u32> {
        self.batch().filter(|open| open.left == 0).map(|open| open.size)
    }
}
