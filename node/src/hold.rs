//! `muster node-agent hold`: a local file that stops every write except a pending restore.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{clock::Clock, disk::DiskResult, own::Own};

/// The file name in the agent's own directory.
const FILE: &str = "hold";

/// A hold of this node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Hold {
    /// When it ends, by the wall clock at the time it was set.
    pub until: Timestamp,
    /// The reason.
    pub reason: String,
    /// The boot in which it was set.
    pub boot_id: String,
    /// When it ends, in milliseconds since that boot: later changes of the wall clock do not matter.
    pub until_since_boot: u64,
}

impl Hold {
    /// Whether it is still active. After a reboot the wall clock decides.
    pub fn is_active(&self, boot_id: &str, clock: &dyn Clock) -> bool {
        if self.boot_id == boot_id {
            crate::change::milliseconds(clock.since_boot()) < self.until_since_boot
        } else {
            clock.wall() < self.until
        }
    }
}

/// Sets a hold for this time. A time beyond the calendar is cut.
pub(crate) fn set(
    own: &Own,
    boot_id: &str,
    clock: &dyn Clock,
    time: Duration,
    reason: &str,
) -> DiskResult<Hold> {
    let hold = Hold {
        until: clock.wall().checked_add(time).unwrap_or(Timestamp::MAX),
        reason: reason.to_owned(),
        boot_id: boot_id.to_owned(),
        until_since_boot: crate::change::milliseconds(clock.since_boot().saturating_add(time)),
    };
    own.put_json(FILE, &hold, false)?;
    Ok(hold)
}

/// Ends a hold.
pub(crate) fn end_hold(own: &Own) -> DiskResult<()> {
    own.remove(FILE)
}

/// The active hold. A damaged file holds nothing: writes are atomic, so only the disk can damage it.
pub(crate) fn active(own: &Own, boot_id: &str, clock: &dyn Clock) -> DiskResult<Option<Hold>> {
    if own.disk.entry(&own.path(FILE))?.is_none() {
        return Ok(None);
    }
    let hold: Option<Hold> = own.get_json(FILE)?;
    Ok(hold.filter(|hold| hold.is_active(boot_id, clock)))
}
