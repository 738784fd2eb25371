//! How many replicas each ReplicaSet gets: never more than allowed at once, never fewer available than promised.

use k8s_openapi::api::apps::v1::{DeploymentSpec, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::family::{Family, available, size};

/// How far a rollout may go from the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So many more there may be.
    pub surge: i32,
    /// So many may be unavailable.
    pub unavailable: i32,
}

/// The limits of a Deployment.
pub fn limits(spec: &DeploymentSpec) -> Limits {
    let replicas = spec.replicas.unwrap_or(1);
    if recreates(spec) {
        return Limits {
            surge: 0,
            unavailable: 0,
        };
    }
    let rolling = spec
        .strategy
        .as_ref()
        .and_then(|strategy| strategy.rolling_update.clone())
        .unwrap_or_default();
    let surge = resolve(rolling.max_surge.as_ref(), replicas, Round::Up);
    let unavailable = resolve(rolling.max_unavailable.as_ref(), replicas, Round::Down).min(replicas);
    // With neither, nothing could ever move.
    Limits {
        surge,
        unavailable: if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        },
    }
}

/// To which side the part of a pod is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// As a whole one.
    Up,
    /// Not at all.
    Down,
}

/// A number, or a percentage of `total`; a quarter if absent or unreadable.
pub fn resolve(value: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    let percent = match value {
        Some(IntOrString::Int(number)) => return (*number).max(0),
        Some(IntOrString::String(text)) => text.trim_end_matches('%').parse().unwrap_or(25), // refused by a real server
        None => 25_i64,
    };
    let hundredths = percent * i64::from(total);
    let number = if round == Round::Up {
        (hundredths + 99) / 100
    } else {
        hundredths / 100
    };
    i32::try_from(number).unwrap_or(i32::MAX) // more than there can be
}

/// The size of a ReplicaSet that is about to be made, beside so many pods of the others.
pub fn first_size(family: &Family<'_>, old_pods: usize) -> i32 {
    if recreates(&family.spec) {
        let is_free = old_pods == 0 && family.old.iter().all(|child| size(child.set) == 0);
        return if is_free { family.replicas() } else { 0 };
    }
    grown(family, 0)
}

/// The ReplicaSets whose size is to change, with the new size.
pub fn sizes<'a>(family: &Family<'a>) -> Vec<(&'a ReplicaSet, i32)> {
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

fn recreates(spec: &DeploymentSpec) -> bool {
    spec.strategy
        .as_ref()
        .is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"))
}

/// A paused Deployment follows its number of replicas as long as that is clear: with its only ReplicaSet in use.
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

/// The size of the new ReplicaSet: as much as fits beside the others.
fn grown(family: &Family<'_>, now: i32) -> i32 {
    let replicas = family.replicas();
    if now >= replicas {
        return replicas;
    }
    let others: i32 = family.old.iter().map(|child| size(child.set)).sum();
    let room = replicas + limits(&family.spec).surge - others - now;
    now + room.clamp(0, replicas - now)
}

/// Takes from the old ReplicaSets what may go: first what does not work anyway, then what the new one makes up for.
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
    // What does not work is gone or nothing may go: what is left is what is available beyond the minimum.
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

    #[test]
    fn a_percentage_is_rounded_to_its_side() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        for (value, total, up, down) in [
            (Some(percent("25%")), 10, 3, 2),
            (Some(percent("100%")), 3, 3, 3),
            (Some(percent("0%")), 3, 0, 0),
            (Some(IntOrString::Int(2)), 10, 2, 2),
            (None, 4, 1, 1),
            (None, 1, 1, 0),
        ] {
            let both = (
                resolve(value.as_ref(), total, Round::Up),
                resolve(value.as_ref(), total, Round::Down),
            );
            assert_eq!(both, (up, down), "{value:?} of {total}");
        }
    }

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
            // A Deployment that is scaled down loses pods of the new ReplicaSet too.
            let scaled_down = size(&sets[0]) > replicas;
            proptest::prop_assert!(scaled_down || still_up >= up.min(replicas - limits.unavailable), "{up} {still_up}");
        }
    }
}
