//! How many replicas a follower has: as many as its leader, up at once or when the leader is ready, down zone by zone.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::times::{Times, min_time_elapsed};
use crate::model::Set;

/// The annotation that names the leader of a set.
pub const LEADER: &str = "grafana.com/rollout-downscale-leader";
/// `true` and nothing else: more replicas only when all of the leader's are ready.
pub const WHEN_READY: &str = "grafana.com/rollout-upscale-only-when-leader-ready";
/// Replicas that count instead of the leader's, or of the mirrored resource's.
pub const FORCE_REPLICAS: &str = "grafana.com/rollout-force-replicas";

/// The set that a set follows, if it follows one.
pub fn leader<'a>(set: &Set, sets: &'a [Set]) -> Result<Option<&'a Set>, String> {
    let Some(name) = set.annotations.get(LEADER) else {
        return Ok(None);
    };
    let leader = sets.iter().find(|other| other.name == *name);
    let leader = leader.ok_or_else(|| format!("could not find leader for {} using {LEADER}", set.name))?;
    Ok(Some(leader))
}

/// The replicas that an annotation forces; what is no number from 0 to 2147483647 counts as absent.
pub fn forced(annotations: &BTreeMap<String, String>) -> Option<u32> {
    let forced = annotations.get(FORCE_REPLICAS)?.parse::<i32>().ok()?;
    u32::try_from(forced).ok()
}

/// How many replicas a set has from now on; without a leader as many as it has. Forced replicas wait for nothing.
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
