//! If Flux applies, its Ready condition is the only evidence. For custom resources it may date from before the last
//! change: a success with such objects counts after it has lasted for `settle`.
//!
//! Pure. The time runs from the transition of Ready, so a restart of the agent neither shortens nor repeats it.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::{
    assemblage::{SyncPhase, SyncRow, SyncState},
    sync::{Package, SETTLE},
};

use super::observed::KustomizationRow;

/// How long the success of a row must still be delayed. `reported`: its status as last written.
pub(crate) fn remaining_hold(
    row: &SyncRow,
    current: &KustomizationRow,
    reported: Option<&SyncState>,
    now: Timestamp,
) -> Option<Duration> {
    let counted = reported.is_some_and(|reported| {
        // Rows of other writers may have neither digest nor token.
        let same_commit = row.commit.is_none() || reported.commit == row.commit;
        reported.state == SyncPhase::Succeeded
            && same_commit
            && (&reported.digest, reported.token) == (&row.digest, row.token)
    });
    if counted || !current.report.has_custom {
        return None;
    }
    let since = current.report.ready.as_ref()?.since;
    let package = row.package.clone().unwrap_or_default();
    // A transition in the future was stamped by another clock.
    let stood = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let left = settle(&package).saturating_sub(stood);
    (!left.is_zero()).then_some(left)
}

/// `settle` of a package; by default 30 seconds, or half of its timeout if that is less.
pub(crate) fn settle(package: &Package) -> Duration {
    let timeout = package.timeout.to_std();
    package
        .settle
        .map_or_else(|| SETTLE.to_std().min(timeout / 2), muster_api::Duration::to_std)
}

#[cfg(test)]
mod tests {
    use muster_api::flux::Kustomization;
    use serde_json::json;

    use super::*;

    const SINCE: &str = "2026-11-21T12:00:00Z";

    fn kustomization(inventory: &str) -> KustomizationRow {
        let object: Kustomization = serde_json::from_value(json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "web", "generation": 1},
            "spec": {"interval": "1m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "a"}},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "",
                    "lastTransitionTime": SINCE, "observedGeneration": 1}],
                "inventory": {"entries": [{"id": "web_settings__ConfigMap", "v": "v1"}, {"id": inventory, "v": "v1"}]},
            },
        }))
        .unwrap();
        KustomizationRow::of(&object)
    }

    fn row(settle: Option<&str>) -> SyncRow {
        SyncRow {
            digest: Some("d".to_owned()),
            token: Some(3),
            commit: Some("a".to_owned()),
            package: Some(Package {
                settle: settle.map(|settle| settle.parse().unwrap()),
                ..Package::default()
            }),
            ..SyncRow::default()
        }
    }

    fn left_after(
        seconds: i64,
        inventory: &str,
        settle: Option<&str>,
        reported: Option<&SyncState>,
    ) -> Option<u64> {
        let now = SINCE.parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(seconds);
        remaining_hold(&row(settle), &kustomization(inventory), reported, now).map(|left| left.as_secs())
    }

    #[test]
    fn a_success_with_custom_resources_counts_only_after_the_settle_time() {
        let widget = "web_a_example.test_Widget";
        assert_eq!(left_after(0, widget, None, None), Some(30));
        assert_eq!(left_after(29, widget, None, None), Some(1));
        assert_eq!(left_after(30, widget, None, None), None);
        assert_eq!(left_after(-60, widget, None, None), Some(30), "another clock");
        assert_eq!(left_after(5, widget, Some("10s"), None), Some(5));
        assert_eq!(left_after(0, widget, Some("0s"), None), None);
        let own = [
            "web_a_apps_Deployment",
            "_reader_rbac.authorization.k8s.io_ClusterRole",
        ];
        assert!(own.iter().all(|own| left_after(0, own, None, None).is_none()));
        assert_eq!(
            left_after(0, "web_gw_gateway.networking.k8s.io_Gateway", None, None),
            Some(30)
        );
    }

    #[test]
    fn what_counted_counts_though_ready_turned_since() {
        let reported = |token| SyncState {
            state: SyncPhase::Succeeded,
            commit: Some("a".to_owned()),
            digest: Some("d".to_owned()),
            token: Some(token),
            ..SyncState::default()
        };
        assert_eq!(
            left_after(0, "web_a_example.test_Widget", None, Some(&reported(3))),
            None
        );
        assert_eq!(
            left_after(0, "web_a_example.test_Widget", None, Some(&reported(2))),
            Some(30)
        );
        let of_before = SyncState {
            commit: Some("b".to_owned()),
            ..reported(3)
        };
        assert_eq!(
            left_after(0, "web_a_example.test_Widget", None, Some(&of_before)),
            Some(30),
            "another commit"
        );
    }
}
