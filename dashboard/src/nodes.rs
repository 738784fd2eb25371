//! The nodes of a cluster as a fleet: NodeModules stand where modules do, and nodes where clusters do.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition},
};
use kube::ResourceExt;
use muster_api::{
    conditions::READY,
    module::{Attention, ModuleStatus, ReasonGroup, Summary},
    node::{
        NodeAssemblage, NodeModule,
        assemblage::{NodePhase, NodeRow, NodeRowState},
        module::{NodeAttention, NodeModuleStatus, NodeReasonGroup, NodeSummary},
    },
    reasons::{Bucket, Reason},
    selector::Matcher,
};

use crate::{
    Cell, Fleet, Kind, Member, ModuleView, Shape, Why,
    chain::Check,
    fleet::{Carries, Rolling},
    group::natural,
    why::{self, step, without_next},
    words,
};

/// Digits of a hash by which people name a revision.
const DIGITS: usize = 8;

/// The objects that a view of nodes is computed from, as read.
#[derive(Clone, Debug, Default)]
pub struct NodeObjects {
    /// NodeModules.
    pub modules: Vec<Arc<NodeModule>>,
    /// NodeAssemblages.
    pub assemblages: Vec<Arc<NodeAssemblage>>,
    /// Nodes.
    pub nodes: Vec<Arc<Node>>,
    /// The Leases of their agents; read where they are shown.
    pub leases: Vec<Arc<Lease>>,
}

impl NodeObjects {
    fn node(&self, name: &str) -> Option<&Node> {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.name_any() == name).map(|node| &**node)
    }

    /// The status of a NodeModule, with nodes where modules have clusters.
    pub fn status(&self, module: &str) -> Option<ModuleStatus> {
        let mut modules = self.modules.iter();
        let found = modules.find(|known| known.name_any() == module)?;
        found.status.clone().map(in_words_of_modules)
    }

    fn assemblage(&self, name: &str) -> Option<&NodeAssemblage> {
        let mut all = self.assemblages.iter();
        all.find(|assemblage| assemblage.name_any() == name)
            .map(|assemblage| &**assemblage)
    }
}

impl Fleet {
    /// Computes the view of the nodes of a cluster.
    pub fn of_nodes(objects: &NodeObjects) -> Self {
        let mut members: Vec<Member> = objects
            .nodes
            .iter()
            .map(|node| Member {
                name: node.name_any(),
                labels: node.labels().clone(),
            })
            .collect();
        members.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        let by_node: BTreeMap<String, &NodeAssemblage> = objects
            .assemblages
            .iter()
            .map(|assemblage| (assemblage.name_any(), &**assemblage))
            .collect();
        let mut modules: Vec<ModuleView> = objects
            .modules
            .iter()
            .map(|module| view(module, &members, &by_node))
            .collect();
        modules.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        Self {
            clusters: members,
            modules,
        }
    }
}

fn view(module: &NodeModule, members: &[Member], by_node: &BTreeMap<String, &NodeAssemblage>) -> ModuleView {
    let status = module.status.clone().unwrap_or_default();
    let revision = status.revision.as_deref();
    let rolling = Rolling {
        kind: Kind::NodeModule,
        meta: &module.metadata,
        version: revision.map_or_else(|| "?".to_owned(), |revision| short(revision).to_owned()),
        selector: module.spec.selector.as_ref(),
        stages: module
            .spec
            .rollout
            .stages
            .iter()
            .map(|stage| stage.name.as_str())
            .collect(),
        status: in_words_of_modules(status),
    };
    let name = module.name_any();
    let rows = members.iter().map(|member| {
        let assemblage = by_node.get(&member.name)?;
        Placed::of(assemblage, &name)
    });
    rolling.view(members, rows.collect())
}

fn short(revision: &str) -> &str {
    revision.get(..DIGITS).unwrap_or(revision)
}

/// The row of a NodeModule, and what the agent reports of it.
#[derive(Clone, Copy)]
struct Placed<'a> {
    row: &'a NodeRow,
    state: Option<&'a NodeRowState>,
}

impl<'a> Placed<'a> {
    fn of(assemblage: &'a NodeAssemblage, module: &str) -> Option<Self> {
        let row = assemblage.spec.rows.iter().find(|row| row.name == module)?;
        let states = assemblage.status.iter().flat_map(|status| &status.rows);
        let state = states.into_iter().find(|state| state.name == module);
        Some(Self { row, state })
    }

    /// The report, if it is about this very row.
    fn report(&self) -> Option<&'a NodeRowState> {
        let row = self.row;
        self.state
            .filter(|state| state.token == row.token && state.digest == row.digest)
    }
}

impl Carries for Placed<'_> {
    fn version(&self) -> Option<String> {
        Some(short(self.row.revision.as_deref()?).to_owned())
    }

    fn is_concerned(&self) -> bool {
        self.row.revision.is_some()
    }

    fn is_confirmed(&self, target: Option<&str>) -> bool {
        let is_target = self.row.revision.is_some() && self.row.revision.as_deref() == target;
        is_target
            && self
                .report()
                .is_some_and(|report| report.state == NodePhase::Confirmed)
    }

    fn note(&self) -> Option<String> {
        let drift = &self.report()?.drift;
        (!drift.is_empty()).then(|| format!("something else changed {}", drift.join(", ")))
    }
}

/// A status with nodes where modules have clusters.
fn in_words_of_modules(status: NodeModuleStatus) -> ModuleStatus {
    let group = |group: NodeReasonGroup| ReasonGroup {
        reason: group.reason,
        count: group.count,
        clusters: group.nodes,
        truncated: group.truncated,
        message: group.message,
    };
    let attention = |entry: NodeAttention| Attention {
        cluster: entry.node,
        reason: entry.reason,
        since: entry.since,
        message: entry.message,
    };
    let summary = |summary: NodeSummary| Summary {
        total: summary.total,
        updated: summary.updated,
        ready: summary.ready,
        updating: summary.updating,
        waiting: summary.waiting,
        failed: summary.failed,
        skipped: summary.skipped,
        held: summary.held,
        withdrawing: summary.withdrawing,
        clusters: summary.nodes,
    };
    ModuleStatus {
        observed_generation: status.observed_generation,
        conditions: status.conditions,
        state: status.state,
        revision: status.revision,
        summary: status.summary.map(summary),
        reasons: status.reasons.into_iter().map(group).collect(),
        attention: status.attention.into_iter().map(attention).collect(),
        controls: status.controls.into_iter().map(Into::into).collect(),
        rollout: status.rollout,
        ..ModuleStatus::default()
    }
}

/// Explains one node of a NodeModule; none if one of them is not there.
pub fn why_node(objects: &NodeObjects, fleet: &Fleet, module: &str, node: &str) -> Option<Why> {
    let view = fleet.module(Kind::NodeModule, module)?;
    let cell = view.cells.iter().find(|cell| cell.cluster == node)?;
    let has = cell.version.as_deref().unwrap_or("nothing");
    let seen = Seen {
        objects,
        module: objects.modules.iter().find(|known| known.name_any() == module)?,
        view,
        cell,
    };
    let (next, command) = why::next(view, cell).unzip();
    Some(Why {
        checks: seen.chain(),
        ..Why::of(
            format!(
                "{module} on {node} has {has}, wants {}: {}",
                view.version, cell.reason
            ),
            vec![step(cell)],
            next,
            command.flatten(),
        )
    })
}

/// The links of the chain, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Selected,
    Node,
    Agent,
    Held,
    Turn,
    Assigned,
    PickedUp,
    Checks,
    Confirmed,
}

impl Link {
    const ALL: [Self; 9] = [
        Self::Selected,
        Self::Node,
        Self::Agent,
        Self::Held,
        Self::Turn,
        Self::Assigned,
        Self::PickedUp,
        Self::Checks,
        Self::Confirmed,
    ];

    const fn what(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::Node => "node",
            Self::Agent => "agent",
            Self::Held => "holds",
            Self::Turn => "its turn",
            Self::Assigned => "assigned",
            Self::PickedUp => "picked up",
            Self::Checks => "checks",
            Self::Confirmed => "confirmed",
        }
    }

    /// The link that a reason stops at. None: it stops at none, or only the row says at which.
    fn of(reason: Reason) -> Option<Self> {
        let by_bucket = |bucket| match bucket {
            Bucket::Excluded | Bucket::Withdrawing => Some(Self::Selected),
            Bucket::Skipped => Some(Self::Node),
            Bucket::Held => Some(Self::Held),
            Bucket::Waiting => Some(Self::Turn),
            Bucket::Failed => Some(Self::Checks),
            Bucket::Updating | Bucket::Updated => None,
        };
        match reason {
            Reason::AgentMissing | Reason::AgentTooOld => Some(Self::Agent),
            Reason::HeldLocally => Some(Self::Held),
            Reason::BindingFailed | Reason::NameConflict | Reason::WriteFailed => Some(Self::Assigned),
            Reason::NotPickedUp => Some(Self::PickedUp),
            Reason::Soaking => Some(Self::Confirmed),
            reason => by_bucket(reason.bucket()),
        }
    }
}

/// What the chain is looked for in.
struct Seen<'a> {
    objects: &'a NodeObjects,
    module: &'a NodeModule,
    view: &'a ModuleView,
    cell: &'a Cell,
}

impl Seen<'_> {
    /// Up to the link that the reason of the node names.
    fn chain(&self) -> Vec<Check> {
        let stop = self.stop();
        let mut chain = Vec::new();
        for link in Link::ALL {
            if Some(link) == stop {
                chain.push(self.stops(link));
                break;
            }
            chain.extend(self.passes(link));
        }
        chain
    }

    fn stop(&self) -> Option<Link> {
        let Ok(reason) = self.cell.reason.parse::<Reason>() else {
            return match self.cell.shape {
                Shape::NotSelected => Some(Link::Selected),
                Shape::Unknown => Some(Link::Node),
                // A word of a newer controller.
                _ => Some(self.under_way()),
            };
        };
        match (Link::of(reason), reason.bucket()) {
            _ if self.view.deleting => Some(Link::Selected),
            (None, Bucket::Updating) => Some(self.under_way()),
            (link, _) => link,
        }
    }

    fn under_way(&self) -> Link {
        let Some(placed) = self.placed() else {
            return Link::Assigned;
        };
        let target = self
            .module
            .status
            .as_ref()
            .and_then(|status| status.revision.as_ref());
        match placed.report().map(|report| report.state) {
            _ if target.is_none() || placed.row.revision.as_ref() != target => Link::Assigned,
            None => Link::PickedUp,
            Some(NodePhase::Confirmed) => Link::Confirmed,
            Some(_) => Link::Checks,
        }
    }

    fn placed(&self) -> Option<Placed<'_>> {
        let assemblage = self.objects.assemblage(&self.cell.cluster)?;
        Placed::of(assemblage, &self.view.name)
    }

    /// The chain ends here, for the reason that the status names.
    fn stops(&self, link: Link) -> Check {
        let Cell {
            shape,
            reason,
            message,
            ..
        } = self.cell;
        let message = without_next(message);
        let stopped = if message.is_empty() {
            reason.clone()
        } else {
            format!("{reason}: {message}")
        };
        let found = match (link, shape) {
            (Link::Selected, _) if self.view.deleting => {
                format!("the NodeModule is being deleted: {stopped}")
            }
            (Link::Selected, Shape::NotSelected) => self.selection(),
            (Link::Selected, _) => format!("{}: {stopped}", self.selection()),
            (Link::Node, _) => format!("{stopped}; {}", self.node()),
            (Link::Agent, _) => format!("{stopped}; {}", self.agent()),
            (Link::Checks, _) => format!("{stopped}{}", self.restored()),
            _ => stopped,
        };
        Check {
            holds: false,
            shape: *shape,
            what: link.what(),
            found,
        }
    }

    /// What is known of a link that holds.
    fn passes(&self, link: Link) -> Option<Check> {
        let version = &self.view.version;
        let found = match link {
            Link::Selected => self.selection(),
            Link::Node => self.node(),
            Link::Agent => self.agent(),
            Link::Held => "none".to_owned(),
            Link::Turn => format!("it may have {version}"),
            Link::Assigned => {
                let of = self.placed()?.version()?;
                format!("{of} is what it was given")
            }
            Link::PickedUp => {
                self.placed()?.report()?;
                "the agent reports about this very row".to_owned()
            }
            Link::Checks => {
                let placed = self.placed()?;
                placed
                    .report()
                    .filter(|report| report.state == NodePhase::Confirmed)?;
                let note = placed.note().map_or_else(String::new, |note| format!("; {note}"));
                format!("they held after the change{note}")
            }
            Link::Confirmed => return None,
        };
        Some(Check {
            holds: true,
            shape: Shape::Ready,
            what: link.what(),
            found,
        })
    }

    /// The selector and the labels.
    fn selection(&self) -> String {
        let labels = self.objects.node(&self.cell.cluster).map(ResourceExt::labels);
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
        let selector = self.module.spec.selector.as_ref();
        // A selector that cannot be read selects nothing; the NodeModule's own condition says what is wrong with it.
        let matches =
            labels.is_some_and(|labels| Matcher::new(selector).is_ok_and(|matcher| matcher.matches(labels)));
        let verb = if matches { "matches" } else { "does not match" };
        format!(
            "{} {verb} {pairs}",
            words::selector_of(selector, Kind::NodeModule)
        )
    }

    /// Whether the Node is Ready, and since when.
    fn node(&self) -> String {
        let Some(node) = self.objects.node(&self.cell.cluster) else {
            return "there is no such Node".to_owned();
        };
        let conditions = node
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let mut ready = conditions.filter(|condition| condition.type_ == READY);
        ready
            .next()
            .map_or_else(|| "the Node does not say whether it is Ready".to_owned(), told)
    }

    /// The version of the agent, and when its Lease was renewed.
    fn agent(&self) -> String {
        let name = &self.cell.cluster;
        let assemblage = self.objects.assemblage(name);
        let agent = assemblage.and_then(|assemblage| assemblage.status.as_ref()?.agent.as_ref());
        let version = agent.map_or_else(
            || "it has not reported yet".to_owned(),
            |agent| format!("version {}", agent.version),
        );
        let mut leases = self.objects.leases.iter();
        let lease = leases.find(|lease| lease.name_any() == *name);
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
        match (lease, renewed) {
            (None, _) => format!("{version}, no Lease"),
            (Some(_), None) => format!("{version}, its Lease says no time"),
            (Some(_), Some(at)) => format!("{version}, its Lease was renewed at {}", whole(at.0)),
        }
    }

    /// What became of the node after a change that failed there.
    fn restored(&self) -> String {
        let report = self.placed().and_then(|placed| placed.report().cloned());
        let Some(report) = report.filter(|report| report.state == NodePhase::Failed) else {
            return String::new();
        };
        let reason = report.reason.as_deref().unwrap_or("Failed");
        let carries = report.confirmed.as_deref();
        let carries = carries.map_or_else(
            || "it carries what it had before any change of this NodeModule".to_owned(),
            |digest| {
                format!(
                    "it carries what was confirmed last ({})",
                    short(digest.trim_start_matches("sha256:"))
                )
            },
        );
        if reason == "RestoreFailed" {
            format!(" ({reason}: what it had before could not be restored)")
        } else if report.terminal {
            format!(" ({reason}: {carries})")
        } else {
            format!(" ({reason})")
        }
    }
}

fn told(condition: &NodeCondition) -> String {
    let is = if condition.status == "True" {
        "Ready"
    } else {
        "not Ready"
    };
    let since = condition
        .last_transition_time
        .as_ref()
        .map_or_else(String::new, |at| format!(" since {}", at.0));
    let why = condition
        .message
        .as_deref()
        .filter(|_| condition.status != "True");
    let why = why.map_or_else(String::new, |why| format!(" ({})", words::one_line(why)));
    format!("{is}{since}{why}")
}

/// In whole seconds, as people read it.
fn whole(at: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// What to do about a node, and the command for that, where it is not what is done about a cluster.
pub fn next(module: &ModuleView, cell: &Cell) -> Option<(String, Option<String>)> {
    if module.kind != Kind::NodeModule {
        return None;
    }
    let (address, node) = (module.address(), words::shell_word(&cell.cluster));
    let with = |what: &str, command: String| Some((what.to_owned(), Some(command)));
    let reason: Option<Reason> = cell.reason.parse().ok(); // a word of a newer controller: nothing is known to be done
    match (cell.shape, reason) {
        (_, Some(Reason::LostInChange)) => with(
            "no other node takes its turn before it is back; if it is gone for good",
            format!("muster rollout release {address} --node {node}"),
        ),
        (_, Some(Reason::AgentMissing | Reason::AgentTooOld)) => with(
            "it is skipped, and taken when its agent is back; to see the pod that installs it",
            format!("kubectl get pods -n muster-nodes -o wide --field-selector spec.nodeName={node}"),
        ),
        (_, Some(Reason::NodeNotReady | Reason::NodeUnsupported | Reason::Deleting)) => with(
            "it is skipped, and taken when it is Ready again",
            format!("kubectl describe node {node}"),
        ),
        (_, Some(Reason::HeldLocally)) => with(
            "to let it go on, on the node itself",
            "muster node-agent release".to_owned(),
        ),
        (_, Some(Reason::BudgetFull)) => with(
            "nothing to do: it goes on when other nodes are done; to see which",
            "kubectl get nodebudget nodes -o yaml".to_owned(),
        ),
        (_, Some(Reason::BusyWith)) => {
            let other = cell.message.split_once("NodeModule ").map(|(_, rest)| rest);
            let other = other
                .and_then(|rest| rest.split([',', ' ']).next())
                .unwrap_or("NAME");
            with(
                "nothing to do: it goes on when that change is over; to see how far it is",
                format!("muster why nodemodule/{} --node {node}", words::shell_word(other)),
            )
        }
        (_, Some(Reason::BindingFailed)) => with(
            "correct the binding, or the labels of the Node",
            format!("kubectl get node {node} --show-labels"),
        ),
        (Shape::Held, Some(Reason::Pinned)) => with(
            "to give it again what all others have",
            format!("muster unpin --node {node} --module {address}"),
        ),
        // The hold is either the Node's, for all NodeModules, or this one's.
        (Shape::Held, _) if cell.message.starts_with("held for this NodeModule") => with(
            "to let it go on",
            format!("muster release {address} --node {node}"),
        ),
        (Shape::Held, _) => with("to let it go on", format!("muster release --node {node}")),
        (Shape::Failed, _) | (_, Some(Reason::Halted | Reason::KnownBad)) => with(
            "apply a fixed NodeModule and the rollout continues; or, if it was not to blame, try it again",
            format!("muster rollout retry {address}"),
        ),
        (_, Some(Reason::Aborted)) => with(
            "apply another revision; or try this one again",
            format!("muster rollout retry {address}"),
        ),
        (Shape::Unreachable, _) => with(
            "it is skipped, and taken when it is ready again",
            format!("kubectl describe node {node}"),
        ),
        (Shape::Unknown, _) => with(
            "see whether the controller runs and answers",
            "kubectl get pods -n muster-system".to_owned(),
        ),
        _ => None,
    }
}
