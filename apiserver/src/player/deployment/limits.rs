//! How far a rollout may deviate from the number of replicas.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How far a rollout may deviate from the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum number of extra pods.
    pub surge: i32,
    /// Maximum number of unavailable pods.
    pub unavailable: i32,
}

/// The limits of a Deployment.
pub(crate) fn limits(spec: &DeploymentSpec) -> Limits {
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
    // With both at zero the rollout could never progress.
    Limits {
        surge,
        unavailable: if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        },
    }
}

/// How a fraction of a pod is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Rounded up.
    Up,
    /// Rounded down.
    Down,
}

/// A number, or a percentage of `total`; a quarter if absent or invalid.
pub(crate) fn resolve(value: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    let percent = match value {
        Some(IntOrString::Int(number)) => return (*number).max(0),
        Some(IntOrString::String(text)) => text.trim_end_matches('%').parse().unwrap_or(25), // a real server rejects it
        None => 25_i64,
    };
    let hundredths = percent * i64::from(total);
    let number = if round == Round::Up {
        (hundredths + 99) / 100
    } else {
        hundredths / 100
    };
    i32::try_from(number).unwrap_or(i32::MAX) // more than an i32 holds
}

/// Whether the old pods are removed before new ones are created.
pub(crate) fn recreates(spec: &DeploymentSpec) -> bool {
    spec.strategy
        .as_ref()
        .is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"))
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
}
