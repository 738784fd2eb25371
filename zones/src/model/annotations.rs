//! Parses annotations of StatefulSets, with the names of rollout-operator.

use std::collections::BTreeMap;

/// Maximum number of unavailable pods: a count, or a percentage of the replicas.
pub const MAX_UNAVAILABLE: &str = "rollout-max-unavailable";
/// Only the value `true` pauses the set: its pods are not changed.
pub const PAUSED: &str = "grafana.com/rollout-paused";

/// Annotations or labels.
pub type Texts = BTreeMap<String, String>;

/// Whether pods of the set are left unchanged.
pub fn is_paused(annotations: &Texts) -> bool {
    annotations.get(PAUSED).is_some_and(|paused| paused == "true")
}

/// Maximum number of unavailable pods: at least 1, and 1 if the annotation is absent or invalid.
pub fn max_unavailable(annotations: &Texts, replicas: u32) -> u32 {
    let annotation = annotations.get(MAX_UNAVAILABLE);
    annotation.and_then(|text| limit(text, replicas)).unwrap_or(1)
}

/// Parses a limit: `N`, or `N%` of the replicas, rounded down but at least 1. `None` if it is neither.
pub fn limit(text: &str, replicas: u32) -> Option<u32> {
    let text = text.trim();
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent = number(percent).filter(|percent| (1..=100).contains(percent))?;
            let share = u32::try_from(i64::from(replicas) * percent / 100).ok()?; // a percentage of a u32 fits in a u32
            Some(share.max(1))
        }
        None => number(text)
            .and_then(|count| u32::try_from(count).ok()) // a negative count is ignored
            .filter(|count| *count > 0),
    }
}

/// An integer in Go's notation: a sign and leading zeros are allowed.
fn number(text: &str) -> Option<i64> {
    text.parse().ok() // anything but a number is ignored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_limit_is_one() {
        for (text, replicas, expect) in [
            ("2", 3, 2),
            ("50%", 5, 2),
            ("1%", 3, 1),
            ("100%", 3, 3),
            ("101%", 3, 1),
            ("0", 3, 1),
            ("-2", 3, 1),
            ("0%", 3, 1),
            ("two", 3, 1),
            ("", 3, 1),
            ("10", 3, 10),
        ] {
            let annotations = Texts::from([(MAX_UNAVAILABLE.to_owned(), text.to_owned())]);
            assert_eq!(max_unavailable(&annotations, replicas), expect, "{text}");
        }
        assert_eq!(max_unavailable(&Texts::new(), 3), 1);
    }
}
