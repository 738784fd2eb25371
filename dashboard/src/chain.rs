//! The checks that a unit must pass to get a module's target, in order, up to the one that blocks it. Shown by `why`.

use kube::ResourceExt as _;
use muster_api::{
    conditions::{self, REACHABLE},
    reasons::{Bucket, Reason},
    selector::Matcher,
};
use serde::Serialize;

use crate::{
    Cell, Fleet, Kind, Member, ModuleRef, ModuleView, Objects, Shape,
    nodes::NodeAssignment,
    rolling::{Carries, Ground, Rolling, Row},
    selector,
    upgrades::Upgradable,
    words::without_next,
};

/// One check of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Whether the check passes. The first check that does not is the last of the chain.
    pub holds: bool,
    /// State of the blocking check; ready if the check passes.
    pub shape: Shape,
    /// What is checked, in one or two words.
    pub what: &'static str,
    /// Result of the check.
    pub found: String,
}

/// The checks, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Selected,
    Reachable,
    Agent,
    Held,
    Turn,
    Assigned,
    PickedUp,
    Healthy,
    Confirmed,
}

impl Link {
    const ALL: [Self; 9] = [
        Self::Selected,
        Self::Reachable,
        Self::Agent,
        Self::Held,
        Self::Turn,
        Self::Assigned,
        Self::PickedUp,
        Self::Healthy,
        Self::Confirmed,
    ];

    const fn what(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Selected, _) => "selected",
            (Self::Reachable, Kind::NodeModule) => "node",
            (Self::Reachable, _) => "reachable",
            (Self::Agent, _) => "agent",
            (Self::Held, _) => "holds",
            (Self::Turn, _) => "its turn",
            (Self::Assigned, _) => "assigned",
            (Self::PickedUp, _) => "picked up",
            (Self::Healthy, Kind::NodeModule) => "checks",
            (Self::Healthy, Kind::ClusterUpgrade) => "machines",
            (Self::Healthy, _) => "healthy",
            (Self::Confirmed, _) => "confirmed",
        }
    }

    /// The check that a reason blocks; `None` if it blocks none, or if only the assignment tells which.
    const fn of(reason: Reason) -> Option<Self> {
        match (reason, reason.bucket()) {
            (Reason::AgentMissing | Reason::AgentTooOld, _) => Some(Self::Agent),
            (Reason::BindingFailed | Reason::NameConflict | Reason::WriteFailed, _) => Some(Self::Assigned),
            (Reason::NotPickedUp, _) => Some(Self::PickedUp),
            (Reason::Soaking, _) => Some(Self::Confirmed),
            (_, Bucket::Excluded | Bucket::Withdrawing) => Some(Self::Selected),
            (_, Bucket::Skipped) => Some(Self::Reachable),
            (_, Bucket::Held) => Some(Self::Held),
            (_, Bucket::Waiting) => Some(Self::Turn),
            (_, Bucket::Failed) => Some(Self::Healthy),
            (_, Bucket::Updating | Bucket::Updated) => None,
        }
    }
}

/// Builds the chain of one unit, up to the check that its reason names.
pub(crate) fn of(objects: &Objects, fleet: &Fleet, module: &ModuleView, cell: &Cell) -> Vec<Check> {
    let name = ModuleRef {
        kind: module.kind,
        name: module.name.clone(),
    };
    let input = ChainInput {
        module,
        cell,
        member: fleet.clusters.iter().find(|member| member.name == cell.cluster),
        rolling: objects.module(&name),
    };
    match module.kind {
        Kind::Module | Kind::BootstrapModule => input.chain(&of_cluster(objects, &name, &cell.cluster)),
        Kind::ClusterUpgrade => {
            let mut clusters = objects.clusters.iter();
            let cluster = clusters.find(|cluster| cluster.name_any() == cell.cluster);
            let mut upgrades = objects.upgrades.iter();
            let upgrade = upgrades.find(|upgrade| upgrade.name_any() == module.name);
            let row = cluster
                .zip(upgrade)
                .and_then(|(cluster, upgrade)| Upgradable::of(cluster, upgrade));
            let ground = of_cluster(objects, &name, &cell.cluster);
            input.chain(&Ground {
                row,
                unit: ground.unit,
                agent: None,
                after: String::new(),
            })
        }
        Kind::NodeModule => {
            input.chain::<NodeAssignment<'_>>(&objects.nodes.ground(&module.name, &cell.cluster))
        }
    }
}

fn of_cluster<'a>(objects: &'a Objects, module: &ModuleRef, cluster: &str) -> Ground<Row<'a>> {
    let assemblage = objects.assemblage(module.kind, cluster);
    let status = assemblage.and_then(|(_, status)| status);
    let answers = status.and_then(|status| conditions::find(&status.conditions, REACHABLE));
    Ground {
        row: assemblage.and_then(|(spec, status)| Row::of(spec, status, &module.name)),
        unit: match answers {
            Some(answers) => format!("{} since {}", answers.reason, answers.last_transition_time.0),
            None => "no problem is known".to_owned(),
        },
        agent: None,
        after: String::new(),
    }
}

/// Input of the chain.
struct ChainInput<'a> {
    module: &'a ModuleView,
    cell: &'a Cell,
    member: Option<&'a Member>,
    rolling: Option<Rolling<'a>>,
}

impl ChainInput<'_> {
    fn chain<R: Carries>(&self, ground: &Ground<R>) -> Vec<Check> {
        let stop = self.stop(ground.row.as_ref());
        let mut chain = Vec::new();
        for link in Link::ALL {
            if Some(link) == stop {
                chain.push(self.stops(link, ground));
                break;
            }
            chain.extend(self.passes(link, ground));
        }
        chain
    }

    /// The check that the reason blocks, if any. For units in progress the assignment tells which.
    fn stop(&self, row: Option<&impl Carries>) -> Option<Link> {
        let Ok(reason) = self.cell.reason.parse::<Reason>() else {
            return match self.cell.shape {
                Shape::NotSelected => Some(Link::Selected),
                // Of an unknown state no later check is claimed to pass.
                Shape::Unknown => Some(Link::Reachable),
                // A reason of a newer controller.
                _ => Some(self.under_way(row)),
            };
        };
        match (Link::of(reason), reason.bucket()) {
            _ if self.module.deleting => Some(Link::Selected),
            (None, Bucket::Updating) => Some(self.under_way(row)),
            (link, _) => link,
        }
    }

    fn under_way(&self, row: Option<&impl Carries>) -> Link {
        let target = self
            .rolling
            .as_ref()
            .and_then(|rolling| rolling.status.revision.as_deref());
        let assigned = row.filter(|row| target.is_some() && row.revision() == target);
        match assigned.map(Carries::succeeded) {
            None => Link::Assigned,
            Some(None) => Link::PickedUp,
            Some(Some(true)) => Link::Confirmed,
            Some(Some(false)) => Link::Healthy,
        }
    }

    /// The failed check, with the reason from the status.
    fn stops<R>(&self, link: Link, ground: &Ground<R>) -> Check {
        let Cell {
            shape,
            reason,
            message,
            ..
        } = self.cell;
        let kind = self.module.kind;
        let message = without_next(message);
        let stopped = if message.is_empty() {
            reason.clone()
        } else {
            format!("{reason}: {message}")
        };
        let found = match (link, shape) {
            (Link::Selected, _) if self.module.deleting => {
                format!("the {} is being deleted: {stopped}", kind.word())
            }
            (Link::Selected, Shape::NotSelected) => self.selection(),
            (Link::Selected, _) => format!("{}: {stopped}", self.selection()),
            (Link::Reachable, _) if kind == Kind::NodeModule => format!("{stopped}; {}", ground.unit),
            (Link::Agent, _) => match &ground.agent {
                Some(agent) => format!("{stopped}; {agent}"),
                None => stopped,
            },
            (Link::Healthy, _) => format!("{stopped}{}", ground.after),
            _ => stopped,
        };
        Check {
            holds: false,
            shape: *shape,
            what: link.what(kind),
            found,
        }
    }

    /// The passed check; `None` if its result is unknown.
    fn passes<R: Carries>(&self, link: Link, ground: &Ground<R>) -> Option<Check> {
        let (row, kind) = (ground.row.as_ref(), self.module.kind);
        let found = match link {
            Link::Selected => self.selection(),
            Link::Reachable => ground.unit.clone(),
            Link::Agent => ground.agent.clone()?,
            Link::Held => "none".to_owned(),
            Link::Turn => format!("it may have {}", self.module.version),
            Link::Assigned => format!("{} is assigned", row?.version()?),
            Link::PickedUp => {
                row?.succeeded()?;
                match kind {
                    Kind::NodeModule => "the agent has reported about this assignment".to_owned(),
                    // Cluster API has no report for a version: its Machines show the progress.
                    Kind::ClusterUpgrade => return None,
                    _ => "the cluster has reported about this assignment".to_owned(),
                }
            }
            Link::Healthy => {
                let row = row.filter(|row| row.succeeded() == Some(true))?;
                let note = row.note().map_or_else(String::new, |note| format!("; {note}"));
                match kind {
                    Kind::NodeModule => format!("checks passed after the change{note}"),
                    _ => format!("applied and ready at {}{note}", row.version()?),
                }
            }
            Link::Confirmed => return None,
        };
        Some(Check {
            holds: true,
            shape: Shape::Ready,
            what: link.what(kind),
            found,
        })
    }

    /// The selector and the labels.
    fn selection(&self) -> String {
        let labels = self.member.map(|member| &member.labels);
        let pairs: Vec<String> = labels
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let pairs = if pairs.is_empty() {
            "no labels".to_owned()
        } else {
            pairs.join(", ")
        };
        let selector = self.rolling.as_ref().and_then(|rolling| rolling.selector);
        // An invalid selector selects nothing; the module's own condition reports what is wrong with it.
        let matches =
            labels.is_some_and(|labels| Matcher::new(selector).is_ok_and(|matcher| matcher.matches(labels)));
        let verb = if matches { "matches" } else { "does not match" };
        format!(
            "{} {verb} {pairs}",
            selector::in_words(selector, self.module.kind)
        )
    }
}
