//! Maps the engine's reasons to the public ones, with messages: what, who, since when, until when, what to do next.

use std::{borrow::Borrow, collections::BTreeMap, fmt};

use jiff::Timestamp;
use muster_api::{
    cluster::NotReady,
    labels::annotation,
    reasons::{EventReason, ObjectReason, Reason},
    rollout::{OnUnreachable, Rollout},
};
use muster_rollout::{Absence, Class, Evidence, Ineligible, Millis, Revision, UnitId, Why};

use super::{
    command::{ModuleAddress, command},
    gates::Gates,
    instants::instant,
};

/// Who paused a rollout, and how to resume it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Who, why, since and until when, as far as known.
    pub provenance: String,
    /// How to resume.
    pub resume: String,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.provenance, self.resume)
    }
}

/// The reason for one cluster. Its message is built on demand: in a large fleet few are shown.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// The reason code.
    pub reason: Reason,
    /// Since when; `None` if unknown.
    pub since: Option<Timestamp>,
    why: &'a Why,
    background: &'a Background<'a>,
}

/// The vocabulary of messages for one kind of unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// The kind that is rolled out: `module`.
    pub module: &'static str,
    /// Its plural: `modules`.
    pub modules: &'static str,
    /// The resource of its recorded revisions, for kubectl.
    pub revisions: &'static str,
    /// Its resource, for kubectl.
    pub resource: &'static str,
    /// The kind of a unit's object.
    pub kind: &'static str,
    /// One unit: `cluster`.
    pub unit: &'static str,
    /// Several units: `clusters`.
    pub units: &'static str,
    /// The scope that contains all units: `namespace`.
    pub home: &'static str,
    /// The reason if no units are selected.
    pub none: ObjectReason,
    /// The field that limits concurrent changes.
    pub limit: &'static str,
    /// The field that groups units into exclusive domains.
    pub domain: &'static str,
    /// What happens to a unit's content on withdrawal.
    pub removing: &'static str,
    /// What applies rows on a unit, as a question.
    pub agent: &'static str,
    /// The API server that rows are written to.
    pub server: &'static str,
    /// What to do about a failed version.
    pub fix: &'static str,
    /// Whether its units can be repaired and retried instead.
    pub retried: bool,
    /// The event reason when a unit is confirmed.
    pub updated: EventReason,
    /// The event reason when a version fails on a unit.
    pub failed: EventReason,
    /// The event reason when a unit is withdrawn.
    pub withdrawn: EventReason,
}

impl Vocabulary {
    /// The clusters of a Module.
    pub const CLUSTERS: Self = Self {
        module: "module",
        modules: "modules",
        revisions: "modulerevisions",
        resource: "modules",
        kind: "Cluster",
        unit: "cluster",
        units: "clusters",
        home: "namespace",
        none: ObjectReason::NoClusters,
        limit: "rollout.maxUnreadyClusters",
        domain: "rollout.exclusive",
        removing: "its objects are being removed",
        agent: "is muster agent running in the cluster?",
        server: "the API server of the management cluster",
        fix: "commit a fixed version under a new tag",
        retried: false,
        updated: EventReason::ClusterUpdated,
        failed: EventReason::ClusterFailed,
        withdrawn: EventReason::ClusterWithdrawn,
    };
    /// The Clusters of a ClusterUpgrade.
    pub const UPGRADES: Self = Self {
        module: "ClusterUpgrade",
        modules: "ClusterUpgrades",
        revisions: "clusterupgrades",
        resource: "clusterupgrades",
        removing: "nothing is removed",
        agent: "is Cluster API running in the management cluster?",
        fix: "choose another version, or repair the Cluster and run",
        retried: true,
        ..Self::CLUSTERS
    };
    /// The nodes of a NodeModule.
    pub const NODES: Self = Self {
        module: "NodeModule",
        modules: "NodeModules",
        revisions: "noderevisions",
        resource: "nodemodules",
        kind: "Node",
        unit: "node",
        units: "nodes",
        home: "cluster",
        none: ObjectReason::NoNodes,
        limit: "rollout.maxUnreadyNodes",
        domain: "rollout.domains.key",
        removing: "what it had before is being restored",
        agent: "is muster-node running on the node?",
        server: "the API server",
        fix: "apply a fixed NodeModule",
        retried: false,
        updated: EventReason::NodeUpdated,
        failed: EventReason::NodeFailed,
        withdrawn: EventReason::NodeWithdrawn,
    };
}

/// Context of the messages, in addition to the engine's reasons.
#[derive(Clone, Debug)]
pub struct Background<'a> {
    /// The vocabulary of the units.
    pub words: &'static Vocabulary,
    /// The module's namespace.
    pub namespace: String,
    /// Its kind and name, for kubectl: `module/web`.
    pub module: String,
    /// The pause, if it is paused.
    pub pause: Option<Pause>,
    /// Why a cluster cannot be changed, by name.
    pub obstacles: &'a BTreeMap<String, String>,
    /// A cluster's progress, if its objects report it: the text after "applying VERSION: ".
    pub progress: BTreeMap<&'a str, String>,
    /// The pin of a cluster: to what, who set it, and how it ends.
    pub pins: BTreeMap<String, String>,
    /// Why the version is unknown, if so: reason and message.
    pub source: Option<(Reason, &'a str)>,
    /// The version that is being rolled out.
    pub version: String,
    /// The hash of its revision; empty if unknown.
    pub revision: &'a str,
    /// Who aborted its rollout, as far as known.
    pub aborted: String,
    /// Whether a bad revision should be rolled back, but there is no good one.
    pub stuck: bool,
    /// The gates and their last readings.
    pub gates: Gates<'a>,
}

impl Background<'_> {
    fn address(&self) -> ModuleAddress<'_> {
        ModuleAddress {
            namespace: &self.namespace,
            module: &self.module,
        }
    }

    /// The shortened revision, as in messages and controls.
    fn short_revision(&self) -> &str {
        self.revision.get(..8).unwrap_or(self.revision)
    }

    /// The command that sets a one-shot control.
    fn one_shot_command(&self, key: &str, stage: Option<&str>) -> String {
        let stage = stage.map_or_else(String::new, |stage| format!("{stage}@"));
        command(
            &self.address(),
            key,
            Some(&format!("{stage}{}", self.short_revision())),
        )
    }
}

/// The public reason for a unit.
pub(crate) fn explain_reason<'a>(
    unit: &'a UnitId,
    why: &'a Why,
    background: &'a Background<'a>,
) -> Explained<'a> {
    let (word, since) = word(why);
    // The engine knows only that the version is unresolved.
    let unresolved = background.source.filter(|_| matches!(why, Why::Unresolved));
    let reason = unresolved.map_or(word, |(reason, _)| reason);
    Explained {
        cluster: unit.as_str(),
        reason,
        since: since.map(instant),
        why,
        background,
    }
}

impl Explained<'_> {
    /// The message for users.
    pub fn message(&self) -> String {
        let newer = self.background.progress.get(self.cluster);
        match newer.filter(|_| self.reason == Reason::AlreadyNewer) {
            Some(newer) => newer.clone(),
            None => message(self.cluster, self.why, self.background),
        }
    }

    /// Whether its row has been refused for longer than the pickup deadline.
    pub const fn is_write_overdue(&self) -> bool {
        matches!(self.why, Why::WriteFailed { overdue: true, .. })
    }

    /// Whether both have the same message.
    pub fn says_the_same(&self, other: &Self) -> bool {
        match self.why {
            _ if self.reason == Reason::AlreadyNewer => self.message() == other.message(),
            Why::Ineligible { .. } | Why::NotYet { .. } | Why::Closed { .. } | Why::Pinned { .. } => {
                self.message() == other.message()
            }
            _ => self.why == other.why,
        }
    }
}

/// The public reason, and since when it applies.
pub fn word(why: &Why) -> (Reason, Option<Millis>) {
    match why {
        Why::Ineligible { reason, since } => (carried(*reason), *since),
        Why::WithdrawalHeld { .. } => (Reason::WithdrawalHeld, None),
        Why::Withdrawing { since, .. } => (Reason::Withdrawing, Some(*since)),
        Why::WriteFailed { since, .. } => (Reason::WriteFailed, Some(*since)),
        Why::Failed { since, .. } => (Reason::Failed, *since),
        Why::Overdue { since } => (Reason::Overdue, Some(*since)),
        Why::NotPickedUp { since } => (Reason::NotPickedUp, Some(*since)),
        Why::AlreadyUnready { since, .. } => (Reason::AlreadyUnready, *since),
        Why::Relapsed { since, .. } => (Reason::Relapsed, Some(*since)),
        Why::Updating { since, .. } => (Reason::Updating, Some(*since)),
        Why::Soaking { since, .. } => (Reason::Soaking, Some(*since)),
        Why::KnownBad { .. } => (Reason::KnownBad, None),
        Why::Halted { .. } => (Reason::Halted, None),
        Why::Pinned { .. } => (Reason::Pinned, None),
        Why::Reverting { since, .. } => (Reason::Reverting, Some(*since)),
        Why::Aborted { .. } => (Reason::Aborted, None),
        Why::NotYet { reason } | Why::Closed { reason } => (carried(*reason), None),
        Why::WaitingApproval { .. } => (Reason::WaitingApproval, None),
        Why::WaitingGate { .. } => (Reason::WaitingGate, None),
        Why::WaitingStage { .. } => (Reason::WaitingStage, None),
        Why::WaitingDomain { .. } => (Reason::WaitingDomain, None),
        Why::WaitingBatch { .. } => (Reason::WaitingBatch, None),
        Why::Paused => (Reason::Paused, None),
        Why::Unresolved => (Reason::SourceNotReady, None),
        Why::WaitingTurn { .. } | Why::WaitingBudget { .. } | Why::WaitingRead => (Reason::WaitingTurn, None),
        Why::UpToDate => (Reason::UpToDate, None),
        Why::Excluded => (Reason::Excluded, None),
    }
}

/// The engine passes our code through. A code that is not ours counts as the first of those that stop everything.
fn carried(reason: Ineligible) -> Reason {
    Reason::of_code(reason.code).unwrap_or(Reason::Deleting)
}

/// The precedence of a reason in the engine. Recorded decisions contain these numbers and must stay valid: a new reason
/// shares the number of its neighbor in the table.
pub(crate) fn precedence(reason: Reason) -> u8 {
    match reason {
        Reason::WriteFailed => Reason::Failed.code(),
        Reason::SyncUnsupported
        | Reason::VersionSkew
        | Reason::ManagedElsewhere
        | Reason::Conflict
        | Reason::LostInChange
        | Reason::NodeNotReady
        | Reason::NodeUnsupported
        | Reason::AgentMissing
        | Reason::AgentTooOld => Reason::KindMissing.code(),
        Reason::HeldLocally => Reason::Held.code(),
        Reason::WindowInvalid
        | Reason::WindowClosed
        | Reason::BusyWith
        | Reason::BudgetFull
        | Reason::Remediating
        | Reason::RollingOut
        | Reason::PreflightUnknown
        | Reason::DisruptionsBlocked
        | Reason::WebhookUnavailable => Reason::DependencyBehind.code(),
        Reason::VerificationFailed => Reason::SourceNotReady.code(),
        Reason::AlreadyNewer => Reason::UpToDate.code(),
        known => known.code(),
    }
}

/// The reason for a cluster that the registry reports as not ready.
pub(crate) const fn not_ready_reason(reason: NotReady) -> Reason {
    match reason {
        NotReady::Deleting => Reason::Deleting,
        NotReady::ClusterPaused => Reason::ClusterPaused,
        NotReady::ControlPlaneNotReady => Reason::ControlPlaneNotReady,
        NotReady::NoKubeconfig => Reason::NoKubeconfig,
        NotReady::KubeconfigRejected => Reason::KubeconfigRejected,
        NotReady::Unreachable => Reason::Unreachable,
        NotReady::CredentialsRejected => Reason::CredentialsRejected,
        NotReady::KindMissing => Reason::KindMissing,
    }
}

#[expect(clippy::too_many_lines, reason = "the table has one entry per case")]
fn message(cluster: &str, why: &Why, background: &Background<'_>) -> String {
    let Background {
        words,
        namespace: _,
        module: _,
        pause,
        obstacles,
        progress,
        pins,
        source,
        version,
        revision: _,
        aborted,
        stuck: _,
        gates,
    } = background;
    match why {
        Why::Ineligible { since, .. } => {
            let obstacle = obstacles
                .get(cluster)
                .map_or("nothing can be assigned to it now", String::as_str);
            let kept = since.map_or(String::new(), |since| {
                format!("; it has held its slot since {}", instant(since))
            });
            format!("{obstacle}{kept}")
        }
        Why::WithdrawalHeld { acknowledge, units } => format!(
            "{units} {} would be withdrawn at once, more than rollout.withdraw.brake allows; nothing is withdrawn until this is acknowledged: {}",
            words.units,
            command(
                &background.address(),
                annotation::ACKNOWLEDGE_WITHDRAWAL,
                Some(acknowledge)
            )
        ),
        Why::Withdrawing { message, .. } => {
            format!("{}{}", words.removing, tail(message.as_deref()))
        }
        Why::WriteFailed { message, .. } => format!(
            "its row cannot be written: {message}; it will be written as soon as {} takes it",
            words.server
        ),
        Why::Failed {
            class,
            message,
            until,
            ..
        } => failed(words, *class, message, *until),
        Why::Overdue { .. } => format!(
            "{version} was picked up but did not become ready within rollout.deadlines.progress{}",
            tail(progress.get(cluster).map(String::as_str))
        ),
        Why::NotPickedUp { .. } => {
            format!(
                "{version} was not picked up within rollout.deadlines.pickup; {}",
                words.agent
            )
        }
        Why::AlreadyUnready { message, .. } => format!(
            "it was not ready before this rollout, so it does not count as failed{}",
            tail(message.as_deref())
        ),
        Why::Relapsed { until, .. } => {
            format!("it was ready at {version} and no longer is{}", by(*until))
        }
        Why::Updating {
            until,
            picked_up,
            message,
            ..
        } => {
            let step = if *picked_up {
                let steps = progress.get(cluster).map(|progress| format!(": {progress}"));
                format!("applying {version}{}", steps.unwrap_or_default())
            } else {
                format!("{version} is assigned, waiting for the agent to pick it up")
            };
            format!("{step}{}{}", by(*until), tail(message.as_deref()))
        }
        Why::Soaking { until, .. } => format!("ready at {version}, soaking until {}", instant(*until)),
        Why::KnownBad { revision, evidence } => {
            let Evidence { unit, at, .. } = evidence;
            let what = format!("is known bad, it failed on {unit} at {}", instant(*at));
            bad(&what, background, *revision, evidence)
        }
        Why::Halted { revision, evidence } => {
            let Evidence { unit, at, .. } = evidence;
            let what = format!(
                "failed on {unit} at {} and is rolled out no further",
                instant(*at)
            );
            bad(&what, background, *revision, evidence)
        }
        Why::Pinned { message } => format!(
            "{}{}",
            pins.get(cluster)
                .map_or("pinned to another revision", String::as_str),
            tail(message.as_deref())
        ),
        Why::Reverting { until, message, .. } => format!(
            "{version} failed or was aborted; reverting to the last good revision{}{}",
            by(*until),
            tail(message.as_deref())
        ),
        Why::Aborted { .. } => format!(
            "the rollout of {version} was aborted{aborted}; next: commit another version, or retry it: {}",
            background.one_shot_command(annotation::RETRY, None)
        ),
        Why::NotYet { .. } | Why::Closed { .. } => obstacles
            .get(cluster)
            .map_or("it waits for something else", String::as_str)
            .to_owned(),
        Why::WaitingApproval { stage } => format!(
            "{version} waits for approval of stage {stage}; next: {}",
            background.one_shot_command(annotation::APPROVE, Some(stage))
        ),
        Why::WaitingGate {
            stage,
            gate,
            last,
            passes,
        } => format!(
            "{version} waits for {}",
            gates.describe(stage, *gate, *last, *passes)
        ),
        Why::WaitingStage { stage, units, until } => match until {
            Some(until) => format!(
                "{version} waits for stage {stage}, which soaks until {}",
                instant(*until)
            ),
            None => format!("{version} waits for stage {stage}{}", in_parentheses(units)),
        },
        Why::WaitingDomain { holders } => format!(
            "{version} waits for {} with another value of the label in {}{}",
            words.units,
            words.domain,
            in_parentheses(holders)
        ),
        Why::WaitingBatch { holders, size } => {
            format!(
                "{version} waits for the current batch of {size} to finish{}",
                in_parentheses(holders)
            )
        }
        Why::Paused => {
            let how = pause.as_ref().map_or_else(String::new, ToString::to_string);
            format!("the rollout of {version} is paused{how}")
        }
        Why::Unresolved => source
            .map_or("the desired version is not resolved yet", |(_, why)| why)
            .to_owned(),
        Why::WaitingBudget { holders, limit } => format!(
            "{version} waits until fewer than {limit} are changing or not available{}",
            in_parentheses(holders)
        ),
        Why::WaitingTurn { holders, limit } => waiting_message(words, holders, *limit, version),
        Why::WaitingRead => "it is withdrawn after the next complete read".to_owned(),
        Why::UpToDate => format!("ready at {version}"),
        Why::Excluded => "not selected".to_owned(),
    }
}

fn failed(words: &Vocabulary, class: Class, message: &str, until: Option<Millis>) -> String {
    match (class, until) {
        (Class::Revision, None) => {
            format!("{message}; next: {}", words.fix)
        }
        (Class::Unit, None) => {
            format!(
                "{message}; next: fix the {}, or commit a version that needs less",
                words.unit
            )
        }
        (Class::Infra, None) => message.to_owned(),
        (_, Some(until)) => format!("{message}; fails if not ready by {}", instant(until)),
    }
}

fn bad(what: &str, background: &Background<'_>, revision: Revision, evidence: &Evidence) -> String {
    let revision: String = revision.to_string().chars().take(8).collect();
    let stuck = if background.stuck {
        "; there is no good revision to go back to"
    } else {
        ""
    };
    let words = background.words;
    let retry = words.retried.then(|| {
        let command = command(&background.address(), annotation::RETRY, Some(&revision));
        format!(": {command}")
    });
    let revision = format!("revision {revision}");
    let version = if background.version == revision {
        revision
    } else {
        format!("{} ({revision})", background.version)
    };
    format!(
        "{version} {what}: {}{stuck}; next: {}{}",
        evidence.message,
        words.fix,
        retry.unwrap_or_default()
    )
}

/// The first few units in parentheses.
fn in_parentheses(units: &[UnitId]) -> String {
    if units.is_empty() {
        String::new()
    } else {
        format!(" ({})", units.join(", "))
    }
}

/// The first three, and the number of the others.
pub fn few<T: Borrow<str>>(clusters: &[T]) -> String {
    match clusters {
        [first, second, third, more @ ..] if !more.is_empty() => {
            let [first, second, third] = [first, second, third].map(Borrow::borrow);
            format!("{first}, {second}, {third} and {} more", more.len())
        }
        all => all.join(", "),
    }
}

/// What a unit waits for.
pub(crate) fn waiting_message(words: &Vocabulary, holders: &[UnitId], limit: u32, what: &str) -> String {
    if limit == 0 {
        return format!(
            "{what} waits: {} is 0, so no {} is updated",
            words.limit, words.unit
        );
    }
    let who = if holders.is_empty() {
        "a slot".to_owned()
    } else {
        few(holders)
    };
    format!("{what} waits for {who} (at most {limit} at a time)")
}

fn by(until: Option<Millis>) -> String {
    until.map_or_else(String::new, |until| {
        format!(", fails if not ready by {}", instant(until))
    })
}

fn tail(message: Option<&str>) -> String {
    message.map_or_else(String::new, |message| format!(": {message}"))
}

/// Why a unit cannot be changed, in the engine's form.
pub fn ineligible(reason: Reason, rollout: &Rollout) -> Ineligible {
    Ineligible {
        code: reason.code(),
        rank: precedence(reason),
        absence: absence(reason, rollout.on_unreachable),
    }
}

/// What `onUnreachable` says for clusters that do not answer or deny access. All others are skipped.
pub fn absence(reason: Reason, on_unreachable: OnUnreachable) -> Absence {
    match (reason, on_unreachable) {
        (Reason::Unreachable | Reason::CredentialsRejected, OnUnreachable::Wait) => Absence::Wait,
        (Reason::Unreachable | Reason::CredentialsRejected, OnUnreachable::Fail) => Absence::Fail,
        _ => Absence::Skip,
    }
}

#[cfg(test)]
impl<'a> Background<'a> {
    /// The context of a module at v2 without any details except these obstacles.
    pub fn plain(obstacles: &'a BTreeMap<String, String>) -> Self {
        static UNREAD: super::gates::Answers = BTreeMap::new();
        Self {
            words: &Vocabulary::CLUSTERS,
            namespace: "fleet".to_owned(),
            module: "module/web".to_owned(),
            pause: None,
            obstacles,
            progress: BTreeMap::new(),
            pins: BTreeMap::new(),
            source: None,
            version: "v2".to_owned(),
            revision: "0123456789abcdef",
            aborted: String::new(),
            stuck: false,
            gates: Gates {
                stages: &[],
                answers: &UNREAD,
            },
        }
    }
}

#[cfg(test)]
mod order;

#[cfg(test)]
#[allow(clippy::too_many_lines, reason = "the table has one entry per case")]
mod tests {
    use muster_rollout::{Absence, GateId};

    use super::*;

    fn check(why: &Why, reason: Reason, expect: &str) {
        let obstacles = BTreeMap::from([("eu-1".to_owned(), "Cluster eu-1 is paused".to_owned())]);
        let pins = BTreeMap::from([("eu-1".to_owned(), "pinned to v1 by ann".to_owned())]);
        let background = Background {
            pause: Some(Pause {
                provenance: " by ann".to_owned(),
                resume: "; to resume: set spec.rollout.paused to false".to_owned(),
            }),
            pins,
            source: Some((Reason::SourceNotReady, "https://git.test cannot be reached")),
            aborted: " by ann (wrong branch)".to_owned(),
            ..Background::plain(&obstacles)
        };
        let unit = "eu-1".into();
        let told = explain_reason(&unit, why, &background);
        assert_eq!(told.reason, reason, "{why:?}");
        assert!(told.message().contains(expect), "{}", told.message());
    }

    #[test]
    fn a_version_that_is_not_verified_is_not_one_that_cannot_be_read() {
        let obstacles = BTreeMap::new();
        let background = Background {
            source: Some((
                Reason::VerificationFailed,
                "tag \"v2\" is not verified: it is not signed",
            )),
            ..Background::plain(&obstacles)
        };
        let unit = "eu-1".into();
        let explained = explain_reason(&unit, &Why::Unresolved, &background);
        assert_eq!(explained.reason, Reason::VerificationFailed);
        assert!(
            explained.message().contains("it is not signed"),
            "{}",
            explained.message()
        );
        assert_eq!(
            explain_reason(&unit, &Why::Paused, &background).reason,
            Reason::Paused
        );
    }

    #[test]
    fn every_reason_of_the_engine_has_its_word_its_place_and_its_message() {
        let at = Millis::seconds(1);
        let evidence = Evidence {
            unit: "dev-1".into(),
            message: "no image".into(),
            at,
        };
        let revision = Revision::new([7; 16]);
        let paused = Ineligible {
            code: Reason::ClusterPaused.code(),
            rank: precedence(Reason::ClusterPaused),
            absence: Absence::Skip,
        };
        check(
            &Why::Ineligible {
                reason: paused,
                since: None,
            },
            Reason::ClusterPaused,
            "Cluster eu-1 is paused",
        );
        check(
            &Why::WithdrawalHeld {
                acknowledge: "x1".into(),
                units: 4,
            },
            Reason::WithdrawalHeld,
            "kubectl annotate --namespace fleet --field-manager=muster-cli module/web --overwrite fleet.muster.dev/acknowledge-withdrawal=x1",
        );
        check(
            &Why::Withdrawing {
                since: at,
                message: None,
            },
            Reason::Withdrawing,
            "being removed",
        );
        check(
            &Why::WriteFailed {
                since: at,
                overdue: false,
                message: "exceeded quota".into(),
            },
            Reason::WriteFailed,
            "its row cannot be written: exceeded quota; ",
        );
        check(
            &Why::Failed {
                class: Class::Revision,
                message: "no image".into(),
                since: None,
                until: None,
            },
            Reason::Failed,
            "no image; next: commit",
        );
        check(&Why::Overdue { since: at }, Reason::Overdue, "deadlines.progress");
        check(
            &Why::NotPickedUp { since: at },
            Reason::NotPickedUp,
            "muster agent",
        );
        check(
            &Why::AlreadyUnready {
                message: None,
                since: None,
            },
            Reason::AlreadyUnready,
            "not ready before",
        );
        check(
            &Why::Relapsed {
                since: at,
                until: None,
            },
            Reason::Relapsed,
            "no longer is",
        );
        check(
            &Why::Updating {
                since: at,
                until: None,
                picked_up: false,
                message: None,
            },
            Reason::Updating,
            "v2 is assigned, waiting for the agent to pick it up",
        );
        check(
            &Why::Soaking { since: at, until: at },
            Reason::Soaking,
            "soaking until",
        );
        check(
            &Why::KnownBad {
                revision,
                evidence: evidence.clone(),
            },
            Reason::KnownBad,
            "v2 (revision 07070707) is known bad, it failed on dev-1 at 1970-01-01T00:00:01Z: no image; next: commit a fixed version",
        );
        check(
            &Why::Halted { revision, evidence },
            Reason::Halted,
            "v2 (revision 07070707) failed on dev-1 at 1970-01-01T00:00:01Z and is rolled out no further: no image; next: commit",
        );
        check(
            &Why::Paused,
            Reason::Paused,
            "v2 is paused by ann; to resume: set spec.rollout.paused to false",
        );
        check(&Why::Unresolved, Reason::SourceNotReady, "cannot be reached");
        check(
            &Why::WaitingTurn {
                holders: ["dev-1".into()].into(),
                limit: 1,
            },
            Reason::WaitingTurn,
            "waits for dev-1 (at most 1",
        );
        check(
            &Why::WaitingTurn {
                holders: [].into(),
                limit: 0,
            },
            Reason::WaitingTurn,
            "so no cluster is updated",
        );
        check(
            &Why::Pinned {
                message: Some("no image".into()),
            },
            Reason::Pinned,
            "pinned to v1 by ann: no image",
        );
        check(
            &Why::Reverting {
                since: at,
                until: None,
                message: None,
            },
            Reason::Reverting,
            "reverting to the last good revision",
        );
        check(
            &Why::Aborted { revision },
            Reason::Aborted,
            "module/web --overwrite fleet.muster.dev/retry=01234567",
        );
        let behind = Ineligible {
            code: Reason::DependencyBehind.code(),
            rank: precedence(Reason::DependencyBehind),
            absence: Absence::Skip,
        };
        check(
            &Why::NotYet { reason: behind },
            Reason::DependencyBehind,
            "Cluster eu-1 is paused",
        );
        check(
            &Why::WaitingApproval {
                stage: "canary".into(),
            },
            Reason::WaitingApproval,
            "fleet.muster.dev/approve=canary@01234567",
        );
        check(
            &Why::WaitingGate {
                stage: "canary".into(),
                gate: GateId { stage: 0, gate: 0 },
                last: None,
                passes: (1, 3),
            },
            Reason::WaitingGate,
            "v2 waits for gate 1 of stage canary, which is being read",
        );
        check(
            &Why::WaitingStage {
                stage: "canary".into(),
                units: ["dev-1".into()].into(),
                until: None,
            },
            Reason::WaitingStage,
            "waits for stage canary (dev-1)",
        );
        check(
            &Why::WaitingStage {
                stage: "canary".into(),
                units: [].into(),
                until: Some(at),
            },
            Reason::WaitingStage,
            "soaks until 1970",
        );
        check(
            &Why::WaitingDomain {
                holders: ["dev-1".into()].into(),
            },
            Reason::WaitingDomain,
            "rollout.exclusive (dev-1)",
        );
        check(
            &Why::WaitingBatch {
                holders: ["dev-1".into()].into(),
                size: 2,
            },
            Reason::WaitingBatch,
            "current batch of 2 to finish (dev-1)",
        );
        check(&Why::WaitingRead, Reason::WaitingTurn, "complete read");
        check(&Why::UpToDate, Reason::UpToDate, "ready at v2");
        check(&Why::Excluded, Reason::Excluded, "not selected");
    }
}
