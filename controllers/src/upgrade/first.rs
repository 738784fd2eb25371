//! What blocks the first change of a Cluster.

use kube::Client;
use muster_api::{cluster_upgrade::UpgradePart, reasons::Reason};
use muster_rollout as engine;

use super::{
    capi::Carrier,
    evidence::{self, Reading},
    preflight::{self, Hindrance},
    reading::{ReadError, Reader},
    version::Version,
};
use crate::runtime::call::error_chain;

/// The parts of a Cluster to upgrade, unless a ClusterUpgrade restricts them.
const WHAT: [UpgradePart; 2] = [UpgradePart::ControlPlane, UpgradePart::Workers];

/// What blocks a change of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing blocks it.
    Free,
    /// Blocked until something outside the Cluster changes.
    NotYet(Reason, String),
    /// Blocked until something in the Cluster changes.
    No(Reason, String),
}

/// Reads a Cluster and, if there is a client for it, its workload cluster, and judges like [`upgrade_change`] in Strict
/// mode. `None`: it already has, or is being upgraded to, that version or a newer one. Writes nothing.
pub async fn prospect(
    reader: &Reader,
    name: &str,
    target: Version,
    there: Result<Client, String>,
) -> Result<Option<Way>, ReadError> {
    let reading = reader.read(name, &WHAT, target, None).await?;
    if reading.oldest().is_some_and(|oldest| oldest >= target) {
        return Ok(None);
    }
    let found = match there {
        Ok(client) => preflight::read(&client)
            .await
            .map(|found| preflight::first_hindrance(&found))
            .map_err(|error| error_chain(&error)),
        Err(error) => Err(error),
    };
    Ok(Some(upgrade_change(&reading, target, true, Some(&found))))
}

/// Judges a Cluster from what was read of it and found in its workload cluster, for a target version.
pub fn upgrade_change(
    reading: &Reading,
    target: Version,
    strict: bool,
    preflight: Option<&Result<Option<Hindrance>, String>>,
) -> Way {
    let nameless = reading.carriers.iter().find(|carrier| carrier.wanted.is_none());
    if let Some(carrier) = nameless {
        let message = format!(
            "{} has no version in {}",
            carrier.describe(),
            carrier.path.join(".")
        );
        return Way::NotYet(Reason::PreflightUnknown, message);
    }
    let Some(oldest) = reading.oldest() else {
        let message = "it has no object with a version: no topology, and no control plane or workers selected by spec.what";
        return Way::NotYet(Reason::PreflightUnknown, message.to_owned());
    };
    let behind = |carrier: &&Carrier| carrier.wanted.is_some_and(|wanted| wanted < target);
    let managed = reading.carriers.iter().filter(behind);
    let managed = managed.filter_map(|carrier| Some((carrier, carrier.applied_by.as_ref()?)));
    if let Some((carrier, manager)) = managed.into_iter().next() {
        let message = format!(
            "{} of {} is applied by {manager}; next: change the version there, or let {manager} give the field up",
            carrier.path.join("."),
            carrier.describe()
        );
        return Way::No(Reason::ManagedElsewhere, message);
    }
    if !reading.is_chained
        && let Some(step) = oldest.first_step_to(target)
    {
        let message = format!(
            "it is at {oldest}, and {target} is more than one minor version away; next: upgrade it to {step} first"
        );
        return Way::No(Reason::VersionSkew, message);
    }
    let remediating =
        reading.cluster.is("Remediating") || reading.carriers.iter().any(|carrier| carrier.is_remediating);
    if remediating {
        let message = "a Machine of it is being remediated: it takes its turn afterwards";
        return Way::NotYet(Reason::Remediating, message.to_owned());
    }
    let settled = evidence::version_state(reading, &[], oldest);
    match settled {
        Some(standing) if standing.state == engine::State::Succeeded => {}
        _ if !strict => {}
        Some(standing) => {
            let message = format!(
                "it takes its turn when its present change is done: {}",
                standing.message
            );
            return Way::NotYet(Reason::RollingOut, message);
        }
        None => {
            let message = "it takes its turn when Cluster API has observed its present generation";
            return Way::NotYet(Reason::RollingOut, message.to_owned());
        }
    }
    match preflight {
        Some(Ok(Some((reason, message)))) => Way::NotYet(*reason, message.clone()),
        Some(Err(error)) if strict => Way::NotYet(Reason::PreflightUnknown, error.clone()),
        Some(Ok(None) | Err(_)) | None => Way::Free,
    }
}
