//! The table of states, rows a to g: the first row that matches applies. Pure.

use muster_api::{
    cluster::{self, Facts, NotReady},
    labels::KUBECONFIG_KEY,
    names::kubeconfig_secret,
};

use super::{contact::Reach, row::ClusterState};

/// The state of a Cluster's kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kubeconfig<'a> {
    /// The Secret was not looked up yet.
    Unknown,
    /// The Secret, or its key, does not exist.
    Absent,
    /// The allow-list rejected it, no client can be created from it, or it leads to another cluster.
    Rejected(&'a str),
    /// Handling it panicked.
    Broken,
    /// There is a client, but the cluster's identity is not known yet.
    Unproven,
    /// There is a client, and the cluster's identity is known.
    Accepted,
}

/// The state of a Cluster; `None` while it is not known, in the first moments of a cluster or of this process.
pub(super) fn decide(
    namespace: &str,
    facts: &Facts,
    kubeconfig: Kubeconfig<'_>,
    reach: Reach<'_>,
) -> Option<ClusterState> {
    let name = &facts.name;
    if let Err(reason) = cluster::state(Some(facts)) {
        return Some(not_ready(reason, object_message(name, reason)));
    }
    let secret = kubeconfig_secret(name);
    let state = match (kubeconfig, reach) {
        (Kubeconfig::Unknown, _)
        | (Kubeconfig::Unproven | Kubeconfig::Accepted, Reach::Unknown)
        | (Kubeconfig::Unproven, Reach::Missing(_) | Reach::Answers) => return None,
        (Kubeconfig::Absent, _) => {
            let message =
                format!("Secret {namespace}/{secret} with the kubeconfig in key {KUBECONFIG_KEY} is missing");
            not_ready(NotReady::NoKubeconfig, message)
        }
        (Kubeconfig::Rejected(why), _) => not_ready(
            NotReady::KubeconfigRejected,
            format!("the kubeconfig in Secret {namespace}/{secret} is not accepted: {why}"),
        ),
        (Kubeconfig::Broken, _) => not_ready(
            NotReady::Unreachable,
            format!(
                "muster panicked while handling cluster {name} and will retry; \
                 please report this bug with the log of the controller"
            ),
        ),
        (Kubeconfig::Unproven | Kubeconfig::Accepted, Reach::Silent(error)) => not_ready(
            NotReady::Unreachable,
            format!("the API server of {name} does not answer: {error}"),
        ),
        (Kubeconfig::Unproven | Kubeconfig::Accepted, Reach::Refuses(error)) => {
            let message = format!(
                "the API server of {name} refuses the credential in Secret {namespace}/{secret}: {error}"
            );
            not_ready(NotReady::CredentialsRejected, message)
        }
        (Kubeconfig::Accepted, Reach::Missing(missing)) => {
            not_ready(NotReady::KindMissing, format!("in cluster {name}: {missing}"))
        }
        (Kubeconfig::Accepted, Reach::Answers) => ClusterState::Ready,
    };
    Some(state)
}

/// The state of a Cluster for a caller that cannot reach it: from the object, whether its Secret exists (`None`:
/// unknown), and the last reason that only muster can determine.
pub fn state_from_object(
    namespace: &str,
    facts: &Facts,
    has_secret: Option<bool>,
    reported: Option<(NotReady, String)>,
) -> ClusterState {
    let kubeconfig = match has_secret {
        Some(false) => Kubeconfig::Absent,
        Some(true) | None => Kubeconfig::Accepted,
    };
    let reported = reported.filter(|(reason, _)| match reason {
        NotReady::Deleting | NotReady::ClusterPaused | NotReady::ControlPlaneNotReady => false,
        NotReady::NoKubeconfig => has_secret.is_none(),
        NotReady::KubeconfigRejected
        | NotReady::Unreachable
        | NotReady::CredentialsRejected
        | NotReady::KindMissing => true,
    });
    match decide(namespace, facts, kubeconfig, Reach::Answers) {
        Some(ClusterState::Ready) | None => reported.map_or(ClusterState::Ready, |(reason, message)| {
            not_ready(reason, message)
        }),
        Some(not_ready) => not_ready,
    }
}

fn not_ready(reason: NotReady, message: String) -> ClusterState {
    ClusterState::NotReady { reason, message }
}

/// The message for a reason that the Cluster object itself gives.
fn object_message(name: &str, reason: NotReady) -> String {
    match reason {
        NotReady::Deleting => format!("Cluster {name} is being deleted"),
        NotReady::ClusterPaused => {
            format!("Cluster {name} is paused (spec.paused, or annotation cluster.x-k8s.io/paused)")
        }
        NotReady::ControlPlaneNotReady => {
            format!(
                "the control plane of Cluster {name} is not ready yet (without Cluster API: annotate it fleet.muster.dev/enrolled)"
            )
        }
        NotReady::NoKubeconfig
        | NotReady::KubeconfigRejected
        | NotReady::Unreachable
        | NotReady::CredentialsRejected
        | NotReady::KindMissing => format!("Cluster {name} is not ready"),
    }
}

/// The state of a cluster before its first probe has completed.
pub(super) fn not_contacted(name: &str) -> ClusterState {
    not_ready(
        NotReady::Unreachable,
        format!("the API server of {name} has not been contacted yet"),
    )
}
