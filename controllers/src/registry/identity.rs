//! The identity of the cluster that a Secret leads to: the uid of its namespace `kube-system`, compared to the one at
//! first contact. Pure.
//!
//! Invariant: the recorded identity of a Cluster changes only by the annotation `fleet.muster.dev/accept-identity` with
//! the new uid.

use muster_api::{
    cluster::GROUP,
    labels::{annotation, manager},
};

/// The observed identity of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ObservedIdentity {
    /// The uid.
    Seen(String),
    /// The credential must not read it.
    Unreadable,
}

/// What is known of a Cluster's identity, in addition to what was observed.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdentityFacts<'a> {
    /// The Cluster's namespace and name.
    pub(super) namespace: &'a str,
    pub(super) cluster: &'a str,
    /// The uid at first contact, or the one accepted since.
    pub(super) pinned: Option<&'a str>,
    /// The uid in the annotation that accepts an identity.
    pub(super) accepted: Option<&'a str>,
    /// Another Cluster that is pinned to the observed uid.
    pub(super) holder: Option<&'a str>,
}

/// The result of an identity check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the expected cluster.
    Same,
    /// Nothing is known, so it is accepted.
    Unknown,
    /// Record this uid as its identity.
    Pin(String),
    /// Nothing is sent to it; why, and what to do.
    Refused(String),
}

/// Checks an observed identity.
pub(super) fn judge_identity(known: &IdentityFacts<'_>, observed: &ObservedIdentity) -> Verdict {
    let observed_uid = match (observed, known.pinned) {
        (ObservedIdentity::Seen(uid), _) => uid.as_str(),
        (ObservedIdentity::Unreadable, None) => return Verdict::Unknown,
        (ObservedIdentity::Unreadable, Some(pinned)) => return Verdict::Refused(unreadable(pinned)),
    };
    match (known.pinned, known.holder) {
        (Some(pinned), _) if pinned == observed_uid => Verdict::Same,
        _ if known.accepted == Some(observed_uid) => Verdict::Pin(observed_uid.to_owned()),
        (_, Some(holder)) => Verdict::Refused(format!(
            "it points to the cluster of Cluster {holder} (the uid of its kube-system namespace is {observed_uid}); delete one of the two Clusters or put the \
             right kubeconfig into the Secret; if they are two clusters, created as copies: {}",
            command(known, observed_uid)
        )),
        (None, None) => Verdict::Pin(observed_uid.to_owned()),
        (Some(pinned), None) => Verdict::Refused(format!(
            "it points to another cluster: the uid of its kube-system namespace is {observed_uid}, was {pinned}; nothing is written to it; if this is intended: {}",
            command(known, observed_uid)
        )),
    }
}

fn unreadable(pinned: &str) -> String {
    format!(
        "cannot tell whether it points to the same cluster as before: its credential is not allowed to get namespace kube-system, whose uid was {pinned}"
    )
}

/// The command that accepts an identity.
fn command(known: &IdentityFacts<'_>, uid: &str) -> String {
    let IdentityFacts {
        namespace, cluster, ..
    } = known;
    format!(
        "kubectl annotate -n {namespace} clusters.{GROUP}/{cluster} --overwrite --field-manager={} {}={uid}",
        manager::CLI,
        annotation::ACCEPT_IDENTITY
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<'a>(
        pinned: Option<&'a str>,
        accepted: Option<&'a str>,
        holder: Option<&'a str>,
    ) -> IdentityFacts<'a> {
        IdentityFacts {
            namespace: "fleet",
            cluster: "eu-1",
            pinned,
            accepted,
            holder,
        }
    }

    #[track_caller]
    fn check(known: &IdentityFacts<'_>, observed: &ObservedIdentity, expect: &str) {
        let got = match judge_identity(known, observed) {
            Verdict::Same => "same".to_owned(),
            Verdict::Unknown => "unknown".to_owned(),
            Verdict::Pin(uid) => format!("pin {uid}"),
            Verdict::Refused(why) => why,
        };
        assert_eq!(got, expect, "{known:?} {observed:?}");
    }

    #[test]
    fn only_the_first_contact_and_a_person_pin() {
        let b = ObservedIdentity::Seen("b".to_owned());
        check(&known(None, None, None), &b, "pin b");
        check(&known(Some("b"), None, None), &b, "same");
        check(&known(Some("b"), Some("a"), Some("eu-2")), &b, "same");
        check(&known(Some("a"), Some("b"), None), &b, "pin b");
        check(&known(None, Some("b"), Some("eu-2")), &b, "pin b");
        let other = "it points to another cluster: the uid of its kube-system namespace is b, was a; nothing is written to it; if this is intended: \
                     kubectl annotate -n fleet clusters.cluster.x-k8s.io/eu-1 --overwrite --field-manager=muster-cli \
                     fleet.muster.dev/accept-identity=b";
        check(&known(Some("a"), None, None), &b, other);
        check(&known(Some("a"), Some("c"), None), &b, other);
        let taken = "it points to the cluster of Cluster eu-2 (the uid of its kube-system namespace is b); delete one of the two Clusters or put the \
                     right kubeconfig into the Secret; if they are two clusters, created as copies: kubectl annotate -n fleet \
                     clusters.cluster.x-k8s.io/eu-1 --overwrite --field-manager=muster-cli fleet.muster.dev/accept-identity=b";
        check(&known(None, None, Some("eu-2")), &b, taken);
        check(&known(Some("a"), Some("a"), Some("eu-2")), &b, taken);
        check(&known(None, None, None), &ObservedIdentity::Unreadable, "unknown");
        check(
            &known(Some("a"), Some("a"), None),
            &ObservedIdentity::Unreadable,
            "cannot tell whether it points to the same cluster as before: its credential is not allowed to get namespace kube-system, whose uid \
             was a",
        );
    }
}
