//! PersistentVolumeClaims: bound immediately, without a volume.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus};

use super::plan::{Plan, Verb};

/// Decides what to do about a claim.
pub(super) fn decide(claim: &PersistentVolumeClaim) -> Plan {
    let mut plan = Plan::default();
    let old = claim.status.clone().unwrap_or_default(); // none yet
    if old.phase.as_deref() == Some("Bound") || claim.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let spec = claim.spec.clone().unwrap_or_default(); // the server requires one
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: spec.access_modes,
        capacity: spec.resources.and_then(|resources| resources.requests),
        ..old
    };
    plan.write(
        Verb::Status,
        PersistentVolumeClaim {
            status: Some(status),
            ..claim.clone()
        },
    );
    plan
}
