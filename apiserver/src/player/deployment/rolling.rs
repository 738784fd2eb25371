//! The number of replicas of each ReplicaSet: never above the maximum, never fewer available than the minimum.

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::family::{Family, available, size};
use super::limits::{limits, recreates};

/// Size of a new ReplicaSet, given the number of pods of the others.
pub(super) fn first_size(family: &Family<'_>, old_pods: usize) -> i32 {
    if recreates(&family.spec) {
        let is_free = old_pods == 0 && family.old.iter().all(|child| size(child.set) == 0);
        return if is_free { family.replicas() } else { 0 };
    }
    grown(family, 0)
}

/// The ReplicaSets to resize, with their new size.
pub(super) fn sizes<'a>(family: &Family<'a>) -> Vec<(&'a ReplicaSet, i32)> {
    let wanted = match (family.new, recreates(&family.spec)) {
        _ if family.is_paused() => paused(family),
        (Some(new), true) => recreate(family, new.set, family.old.iter().all(|child| child.pods == 0)),
        (Some(new), false) => roll(family, new.set),
        (None, _) => Vec::new(),
    };
    wanted
        .into_iter()
        .filter(|(set, replicas)| size(set) != *replicas)
        .collect()
}

/// A paused Deployment is scaled as long as that is unambiguous: if only one ReplicaSet is in use.
fn paused<'a>(family: &Family<'a>) -> Vec<(&'a ReplicaSet, i32)> {
    let in_use: Vec<&ReplicaSet> = family.all().filter(|set| size(set) > 0).collect();
    match (in_use.as_slice(), family.new) {
        ([only], _) => vec![(*only, family.replicas())],
        ([], Some(new)) => vec![(new.set, family.replicas())],
        _ => Vec::new(),
    }
}

fn recreate<'a>(
    family: &Family<'a>,
    new: &'a ReplicaSet,
    old_pods_are_gone: bool,
) -> Vec<(&'a ReplicaSet, i32)> {
    let mut wanted: Vec<_> = family.old.iter().map(|child| (child.set, 0)).collect();
    if old_pods_are_gone {
        wanted.push((new, family.replicas()));
    }
    wanted
}

fn roll<'a>(family: &Family<'a>, new: &'a ReplicaSet) -> Vec<(&'a ReplicaSet, i32)> {
    let wanted = grown(family, size(new));
    if wanted != size(new) {
        return vec![(new, wanted)];
    }
    shrink_old(family, new)
}

/// New size of the new ReplicaSet: as much as the limits allow.
fn grown(family: &Family<'_>, now: i32) -> i32 {
    let replicas = family.replicas();
    if now >= replicas {
        return replicas;
    }
    let others: i32 = family.old.iter().map(|child| size(child.set)).sum();
    let room = replicas + limits(&family.spec).surge - others - now;
    now + room.clamp(0, replicas - now)
}

/// Scales down the old ReplicaSets: first unavailable pods, then those that the new one makes up for.
fn shrink_old<'a>(family: &Family<'a>, new: &'a ReplicaSet) -> Vec<(&'a ReplicaSet, i32)> {
    let minimum = family.replicas() - limits(&family.spec).unavailable;
    let total: i32 = family.all().map(size).sum();
    let mut left = (total - minimum - (size(new) - available(new))).max(0);
    let mut sizes: Vec<_> = family
        .old
        .iter()
        .map(|child| (child.set, size(child.set)))
        .collect();
    for (set, wanted) in &mut sizes {
        let broken = (*wanted - available(set)).clamp(0, left);
        *wanted -= broken;
        left -= broken;
    }
    // Unavailable pods are handled or nothing may be removed: what remains is the number available beyond the minimum.
    for (_, wanted) in &mut sizes {
        let part = (*wanted).min(left);
        *wanted -= part;
        left -= part;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: usize, replicas: i32, available: i32) -> ReplicaSet {
        let meta = serde_json::json!({"name": name.to_string()});
        let set = serde_json::json!({
            "metadata": meta,
            "spec": {"replicas": replicas, "selector": {}},
            "status": {"replicas": replicas, "availableReplicas": available},
        });
        serde_json::from_value(set).unwrap()
    }

    proptest::proptest! {
        #[test]
        fn a_step_never_exceeds_the_limits(
            replicas in 0..9_i32,
            surge in 0..4_i32,
            unavailable in 0..4_i32,
            counts in proptest::collection::vec((0..6_i32, 0..6_i32), 1..4),
        ) {
            let spec = serde_json::json!({
                "replicas": replicas, "selector": {}, "template": {},
                "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            });
            let deployment = serde_json::from_value(serde_json::json!({"metadata": {}, "spec": spec})).unwrap();
            let sets: Vec<ReplicaSet> =
                counts.iter().enumerate().map(|(name, (size, up))| set(name, *size, *up)).collect();
            let child = |set| super::super::Child { set, pods: 0 };
            let mut family = Family::of(&deployment, &sets[1..].iter().map(child).collect::<Vec<_>>());
            family.new = Some(child(&sets[0]));
            let limits = limits(&family.spec);
            let steps = sizes(&family);
            let after = |set: &ReplicaSet| {
                let step = steps.iter().find(|(own, _)| own.metadata.name == set.metadata.name);
                step.map_or_else(|| size(set), |(_, size)| *size)
            };
            let (before, total): (i32, i32) = (sets.iter().map(size).sum(), sets.iter().map(after).sum());
            proptest::prop_assert!(total <= before.max(replicas + limits.surge), "{before} {total}");
            let up: i32 = sets.iter().map(available).sum();
            let still_up: i32 = sets.iter().map(|set| available(set).min(after(set))).sum();
            // A scale-down of the Deployment also removes pods of the new ReplicaSet.
            let scaled_down = size(&sets[0]) > replicas;
            proptest::prop_assert!(scaled_down || still_up >= up.min(replicas - limits.unavailable), "{up} {still_up}");
        }
    }
}
