//! The content of a notification, as text and as data. Pure.

use jiff::Timestamp;
use serde::Serialize;

use super::{
    config::Receiver,
    decide::Telling,
    phase::Phase,
    rollout_state::{Rollout, RolloutState},
};

/// The version of the schema of [`Notification`].
const SCHEMA: &str = "notification/v1";

/// A message as data, for webhooks. Fields may be added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notification<'a> {
    schema: &'static str,
    /// The same in all messages about a rollout.
    id: String,
    /// From 1; of two messages the one with the greater number is later. A message that is sent twice has the same
    /// number.
    sequence: u32,
    phase: Phase,
    text: String,
    module: Module<'a>,
    version: &'a str,
    revision: &'a str,
    commit: &'a str,
    repository: &'a str,
    started: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<Timestamp>,
    clusters: Clusters,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evidence: Vec<Evidence<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
}

#[derive(Debug, Serialize)]
struct Module<'a> {
    namespace: &'a str,
    kind: &'static str,
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct Clusters {
    total: u32,
    updated: u32,
    failed: u32,
    skipped: u32,
    held: u32,
}

#[derive(Debug, Serialize)]
struct Evidence<'a> {
    cluster: &'a str,
    message: &'a str,
}

impl<'a> Notification<'a> {
    /// The content of a message to a receiver.
    pub(crate) fn of(standing: &'a RolloutState, telling: &Telling, receiver: &Receiver) -> Self {
        let Rollout {
            namespace,
            kind,
            module,
            revision,
            version,
            commit,
            repository,
            started,
        } = &standing.rollout;
        let evidence = |(cluster, message): &'a (String, String)| Evidence { cluster, message };
        Self {
            schema: SCHEMA,
            id: standing.rollout.id(),
            sequence: telling.sequence,
            phase: standing.phase,
            text: text(standing),
            module: Module {
                namespace,
                kind: kind.as_str(),
                name: module,
            },
            version,
            revision,
            commit,
            repository,
            started: *started,
            finished: standing.finished,
            clusters: Clusters {
                total: standing.clusters.total,
                updated: standing.clusters.updated,
                failed: standing.clusters.failed,
                skipped: standing.clusters.skipped,
                held: standing.clusters.held,
            },
            evidence: standing.evidence.iter().map(evidence).collect(),
            link: receiver.link_to(&standing.rollout),
        }
    }
}

/// One line for people: what happened, the progress, and the action of the user if one is needed.
pub(crate) fn text(standing: &RolloutState) -> String {
    let Rollout {
        kind,
        module,
        version,
        ..
    } = &standing.rollout;
    let address = format!("{}/{module}", kind.as_str().to_lowercase());
    let far = format!(
        "{} of {} clusters",
        standing.clusters.updated, standing.clusters.total
    );
    let why = standing.why.as_deref().unwrap_or_default();
    match standing.phase {
        Phase::Rolling => format!("{address} {version} is rolling out: {far}"),
        // Who paused it, and how to resume.
        Phase::Paused => format!("{address} {version} at {far}: {why}"),
        Phase::WaitingApproval => {
            // The version, and what waits; the command for people is shorter than the one that follows there.
            let what = why.split("; next: ").next().unwrap_or(why);
            format!("{address}: {what} ({far}); approve: muster rollout approve {address}")
        }
        Phase::Good => format!("{address} {version} is rolled out: {far}"),
        Phase::Bad => {
            let first = standing.evidence.first();
            let evidence = first.map_or_else(String::new, |(cluster, message)| {
                format!("; {cluster}: {message}")
            });
            format!(
                "{address} {version} failed; the rollout is halted ({far} have it); details: muster why {address}{evidence}"
            )
        }
        Phase::Aborted => format!("{address} {version} was aborted ({far} have it)"),
        Phase::Superseded => format!("{address} {version} was superseded by another version at {far}"),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::module::{ModuleKind, Summary};

    use super::*;

    #[test]
    fn what_is_said_is_short_and_has_its_command() {
        let check = |phase: Phase, why: Option<&str>, expect: &str| {
            let standing = RolloutState {
                rollout: Rollout {
                    namespace: "fleet".to_owned(),
                    kind: ModuleKind::Module,
                    module: "web".to_owned(),
                    revision: "ab".repeat(32),
                    version: "v2".to_owned(),
                    commit: "cd".repeat(20),
                    repository: "https://git.test/fleet".to_owned(),
                    started: Timestamp::UNIX_EPOCH,
                },
                phase,
                finished: None,
                clusters: Summary {
                    total: 5,
                    updated: 1,
                    ..Summary::default()
                },
                evidence: vec![("eu-1".to_owned(), "no image".to_owned())],
                why: why.map(str::to_owned),
            };
            assert_eq!(text(&standing), expect);
        };
        check(
            Phase::Rolling,
            None,
            "module/web v2 is rolling out: 1 of 5 clusters",
        );
        check(
            Phase::Paused,
            Some("the rollout is paused by ann; to resume: set spec.rollout.paused to false"),
            "module/web v2 at 1 of 5 clusters: the rollout is paused by ann; to resume: set spec.rollout.paused to false",
        );
        check(
            Phase::WaitingApproval,
            Some("v2 waits for approval of stage canary; next: kubectl annotate module/web"),
            "module/web: v2 waits for approval of stage canary (1 of 5 clusters); approve: muster rollout approve module/web",
        );
        check(
            Phase::Bad,
            None,
            "module/web v2 failed; the rollout is halted (1 of 5 clusters have it); details: muster why module/web; eu-1: no image",
        );
        check(
            Phase::Superseded,
            None,
            "module/web v2 was superseded by another version at 1 of 5 clusters",
        );
    }
}
