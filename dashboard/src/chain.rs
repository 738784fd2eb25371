//! What it takes for a cluster to have what a module wants, in order: the chain that `why` walks, up to what is in the way.

use kube::ResourceExt;
use muster_api::{
    assemblage::{AssemblageStatus, SyncPhase, SyncRow, SyncState, TargetedAssemblageSpec},
    conditions::{self, REACHABLE},
    module::ModuleSpec,
    reasons::{Bucket, Reason},
    selector::Matcher,
};
use serde::Serialize;

use crate::{Cell, Kind, ModuleRef, ModuleView, Objects, Shape, words};

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// It holds, and the next is looked at. The one that does not is the last.
    pub holds: bool,
    /// How that which does not hold stands; ready if it holds.
    pub shape: Shape,
    /// What is looked at: one word or two.
    pub what: &'static str,
    /// What was found.
    pub found: String,
}

/// The links, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Selected,
    Reachable,
    Held,
    Turn,
    Assigned,
    PickedUp,
    Healthy,
    Confirmed,
}

impl Link {
    const ALL: [Self; 8] = [
        Self::Selected,
        Self::Reachable,
        Self::Held,
        Self::Turn,
        Self::Assigned,
        Self::PickedUp,
        Self::Healthy,
        Self::Confirmed,
    ];

    const fn what(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::Reachable => "reachable",
            Self::Held => "holds",
            Self::Turn => "its turn",
            Self::Assigned => "assigned",
            Self::PickedUp => "picked up",
            Self::Healthy => "healthy",
            Self::Confirmed => "confirmed",
        }
    }
}

/// The chain of one cluster, up to the link that its reason names.
pub fn of(objects: &Objects, module: &ModuleView, cell: &Cell) -> Vec<Check> {
    let name = ModuleRef {
        kind: module.kind,
        name: module.name.clone(),
    };
    let seen = Seen {
        module,
        cell,
        spec: objects.module(&name).map(|(spec, _)| spec),
        revision: objects
            .module(&name)
            .and_then(|(_, status)| status?.revision.as_deref()),
        assemblage: assemblage(objects, module.kind, &cell.cluster),
        objects,
    };
    let stop = seen.stop();
    let mut chain = Vec::new();
    for link in Link::ALL {
        if Some(link) == stop {
            chain.push(seen.stops(link));
            break;
        }
        chain.extend(seen.passes(link));
    }
    chain
}

type Found<'a> = (&'a TargetedAssemblageSpec, Option<&'a AssemblageStatus>);

/// What the chain is looked for in.
struct Seen<'a> {
    module: &'a ModuleView,
    cell: &'a Cell,
    spec: Option<&'a ModuleSpec>,
    revision: Option<&'a str>,
    assemblage: Option<Found<'a>>,
    objects: &'a Objects,
}

impl Seen<'_> {
    /// The link that the reason stops at, if it stops at one. Only of what is on its way the rows tell how far it is.
    fn stop(&self) -> Option<Link> {
        let Ok(reason) = self.cell.reason.parse::<Reason>() else {
            return match self.cell.shape {
                Shape::NotSelected => Some(Link::Selected),
                // Of what is not known nothing is claimed.
                Shape::Unknown => Some(Link::Reachable),
                // A word of a newer controller.
                _ => Some(self.under_way()),
            };
        };
        if self.module.deleting {
            return Some(Link::Selected);
        }
        match (reason, reason.bucket()) {
            (Reason::WriteFailed, _) => Some(Link::Assigned),
            (Reason::NotPickedUp, _) => Some(Link::PickedUp),
            (Reason::Soaking, _) => Some(Link::Confirmed),
            (_, Bucket::Excluded | Bucket::Withdrawing) => Some(Link::Selected),
            (_, Bucket::Skipped) => Some(Link::Reachable),
            (_, Bucket::Held) => Some(Link::Held),
            (_, Bucket::Waiting) => Some(Link::Turn),
            (_, Bucket::Failed) => Some(Link::Healthy),
            (_, Bucket::Updating) => Some(self.under_way()),
            (_, Bucket::Updated) => None,
        }
    }

    fn under_way(&self) -> Link {
        let assigned = self
            .row()
            .is_some_and(|row| row.revision.is_some() && row.revision.as_deref() == self.revision);
        match self.echo().map(|state| state.state) {
            _ if !assigned => Link::Assigned,
            None => Link::PickedUp,
            Some(SyncPhase::Succeeded) => Link::Confirmed,
            Some(_) => Link::Healthy,
        }
    }

    fn row(&self) -> Option<&SyncRow> {
        let (spec, _) = self.assemblage?;
        spec.syncs.iter().find(|row| row.name == self.module.name)
    }

    /// What the cluster says about the row as it is.
    fn echo(&self) -> Option<&SyncState> {
        let row = self.row()?;
        let (_, status) = self.assemblage?;
        let state = status?.syncs.iter().find(|state| state.name == row.name)?;
        (state.token == row.token && state.digest == row.digest).then_some(state)
    }

    /// The chain ends here, for the reason that the status names.
    fn stops(&self, link: Link) -> Check {
        let Cell {
            shape,
            reason,
            message,
            ..
        } = self.cell;
        let message = crate::why::without_next(message);
        let stopped = if message.is_empty() {
            reason.clone()
        } else {
            format!("{reason}: {message}")
        };
        let found = match (link, shape) {
            (Link::Selected, _) if self.module.deleting => format!("the module is being deleted: {stopped}"),
            (Link::Selected, Shape::NotSelected) => self.selection(),
            (Link::Selected, _) => format!("{}: {stopped}", self.selection()),
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
        let version = &self.module.version;
        let found = match link {
            Link::Selected => self.selection(),
            Link::Reachable => self.contact(),
            Link::Held => "none".to_owned(),
            Link::Turn => format!("it may have {version}"),
            Link::Assigned => format!("{version} is what it was given"),
            Link::PickedUp => "the cluster answers about this very assignment".to_owned(),
            Link::Healthy => {
                let note = self.echo().and_then(SyncState::note);
                let note = note.map_or_else(String::new, |note| format!("; {note}"));
                format!("applied and ready at {version}{note}")
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
        let mut clusters = self.objects.clusters.iter();
        let cluster = clusters.find(|cluster| cluster.name_any() == self.cell.cluster);
        let labels = cluster.map(|cluster| cluster.labels());
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
        let selector = self
            .spec
            .map_or_else(|| "no selector".to_owned(), words::selector);
        let matches = self.spec.zip(labels).is_some_and(|(spec, labels)| {
            // A selector that cannot be read selects nothing; the module's own condition says what is wrong with it.
            Matcher::new(spec.selector.as_ref()).is_ok_and(|matcher| matcher.matches(labels))
        });
        let verb = if matches { "matches" } else { "does not match" };
        format!("{selector} {verb} {pairs}")
    }

    /// Since when the cluster answers.
    fn contact(&self) -> String {
        let status = self.assemblage.and_then(|(_, status)| status);
        let answers = status.and_then(|status| conditions::find(&status.conditions, REACHABLE));
        match answers {
            Some(answers) => format!("{} since {}", answers.reason, answers.last_transition_time.0),
            None => "nothing is known against it".to_owned(),
        }
    }
}

/// What was assigned to a cluster, and what is known of that.
pub fn assemblage<'a>(objects: &'a Objects, kind: Kind, cluster: &str) -> Option<Found<'a>> {
    match kind {
        Kind::Module => objects
            .proxies
            .iter()
            .find(|proxy| proxy.name_any() == cluster)
            .map(|proxy| (&proxy.spec, proxy.status.as_ref())),
        Kind::BootstrapModule => objects
            .remotes
            .iter()
            .find(|remote| remote.name_any() == cluster)
            .map(|remote| (&remote.spec, remote.status.as_ref())),
        Kind::NodeModule => None,
    }
}
