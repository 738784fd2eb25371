//! `muster node-agent hold`: a local file that stops every write but a pending restore.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{clock::Clock, disk::DiskResult, own::Own};

/// Its name in the agent's own folder.
const FILE: &str = "hold";

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Hold {
    /// When it ends, by the wall clock when it was set.
    pub until: Timestamp,
    /// Why.
    pub reason: String,
    /// The boot in which it was set.
    pub boot_id: String,
    /// When it ends in that boot, in milliseconds since it: what the wall clock does meanwhile does not matter.
    pub until_since_boot: u64,
}

impl Hold {
    /// Whether it still holds. After a reboot the wall clock says so.
    pub fn is_active(&self, boot_id: &str, clock: &dyn Clock) -> bool {
        if self.boot_id == boot_id {
            crate::change::milliseconds(clock.since_boot()) < self.until_since_boot
        } else {
            clock.wall() < self.until
        }
    }
}

/// Sets a hold for so long. A span beyond the calendar ends with it.
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
pub(crate) fn release(own: &Own) -> DiskResult<()> {
    own.remove(FILE)
}

/// The hold that is active. A file that is damaged holds nothing: it is whole or of before, unless the disk lost it.
pub(crate) fn active(own: &Own, boot_id: &str, clock: &dyn Clock) -> DiskResult<Option<Hold>> {
    if own.disk.entry(&own.path(FILE))?.is_none() {
        return Ok(None);
    }
    let hold: Option<Hold> = own.get_json(FILE)?;
    Ok(hold.filter(|hold| hold.is_active(boot_id, clock)))
}
