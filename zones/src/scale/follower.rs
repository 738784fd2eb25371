//! The number of replicas of a follower: that of its leader; scaled up at once or when the leader is ready, scaled down
//! zone by zone.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::times::{Times, min_time_elapsed};
use crate::model::Set;

/// The annotation that names the leader of a set.
pub const LEADER: &str = "grafana.com/rollout-downscale-leader";
/// Only with the value `true` is the set scaled up no sooner than all replicas of the leader are ready.
pub const WHEN_READY: &str = "grafana.com/rollout-upscale-only-when-leader-ready";
/// Overrides the number of replicas of the leader or of the mirrored resource.
pub const FORCE_REPLICAS: &str = "grafana.com/rollout-force-replicas";

/// The leader of a set, if it follows one.
pub fn leader<'a>(set: &Set, sets: &'a [Set]) -> Result<Option<&'a Set>, String> {
    let Some(name) = set.annotations.get(LEADER) else {
        return Ok(None);
    };
    let leader = sets.iter().find(|other| other.name == *name);
    let leader = leader.ok_or_else(|| format!("could not find leader for {} using {LEADER}", set.name))?;
    Ok(Some(leader))
}

/// The number of replicas that an annotation forces; anything but a number from 0 to 2147483647 counts as absent.
pub fn forced(annotations: &BTreeMap<String, String>) -> Option<u32> {
    let forced = annotations.get(FORCE_REPLICAS)?.parse::<i32>().ok()?;
    u32::try_from(forced).ok()
}

/// The number of replicas that a set should have; without a leader its current number. A forced number applies at once.
pub fn desired(set: &Set, sets: &[Set], times: Times<'_>, now: Timestamp) -> Result<u32, String> {
    let present = set.desired();
    let Some(leader) = leader(set, sets)? else {
        return Ok(present);
    };
    if let Some(forced) = forced(&set.annotations) {
        return Ok(forced);
    }
    let wanted = leader.desired();
    if wanted > present {
        let waits = set
            .annotations
            .get(WHEN_READY)
            .is_some_and(|value| value == "true");
        let is_ready = leader.status.ready_replicas == wanted;
        return Ok(if waits && !is_ready { present } else { wanted });
    }
    let may_fall = wanted == present || min_time_elapsed(set, sets, times, now)?;
    Ok(if may_fall { wanted } else { present })
}
