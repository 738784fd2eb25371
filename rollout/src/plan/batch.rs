//! Rule 11: the next batch opens when the last is confirmed, and is larger.

use super::Pass;
use crate::OpenBatch;

impl Pass<'_> {
    /// Who is charged when a run begins, for a target of before, is in its first batch.
    pub(super) fn begin_batches(&mut self) {
        if self.memory.course.batch.is_none() && self.charged() > 0 {
            self.memory.course.batch = self.batch();
        }
    }

    /// The batch that is open, or that may be opened now.
    pub(super) fn batch(&self) -> Option<OpenBatch> {
        let wish = self.spec.batch.filter(|_| self.open_run().is_some())?;
        let largest = wish.max.max(1);
        let of = |size: u32| {
            let size = size.clamp(1, largest);
            OpenBatch { size, left: size }
        };
        Some(match self.memory.course.batch {
            None => OpenBatch {
                left: of(wish.start).left.saturating_sub(self.charged()),
                ..of(wish.start)
            },
            Some(last) if last.left == 0 && self.charged() == 0 => of(last.size.saturating_mul(wish.factor)),
            Some(open) => open,
        })
    }

    /// A unit of the batch that is open was not begun after all: its place is free.
    pub(super) fn free_place(&mut self) {
        if let Some(open) = &mut self.memory.course.batch {
            open.left = open.left.saturating_add(1).min(open.size);
        }
    }

    /// It is begun now.
    pub(super) fn take_place(&mut self) {
        if let Some(open) = &mut self.memory.course.batch {
            open.left = open.left.saturating_sub(1);
        }
    }

    /// The size of the batch that has no place any more, if it is that.
    pub(super) fn full_batch(&self) -> Option<u32> {
        self.batch().filter(|open| open.left == 0).map(|open| open.size)
    }
}
