//! What it takes for a cluster to have what a module wants, in order: the chain that `why` walks, up to what is in the way.

use kube::ResourceExt;
use muster_api::{
    assemblage::{AssemblageStatus, SyncPhase, SyncRow, SyncState, TargetedAssemblageSpec},
    conditions::{self, REACHABLE},
    module::{ModuleKind, ModuleSpec},
    reasons::{Bucket, Reason},
    selector::Matcher,
};
use serde::Serialize;

use crate::{Cell, ModuleRef, ModuleView, Objects, Shape, words};

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

/// The chain of one cluster.
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
    let mut chain = Vec::new();
    for look in [
        selected, reachable, left_alone, in_turn, assigned, picked_up, healthy,
    ] {
        let check = look(&seen);
        let holds = check.holds;
        chain.push(check);
        if !holds {
            return chain;
        }
    }
    // All that can be seen is as it should be, and still the cluster is not confirmed, such as while it soaks.
    if cell.shape.is_open() {
        chain.push(seen.stops("confirmed"));
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
    fn bucket(&self) -> Option<Bucket> {
        self.cell.reason.parse().ok().map(Reason::bucket) // a word of a newer controller is of no bucket
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
    fn stops(&self, what: &'static str) -> Check {
        let Cell {
            shape,
            reason,
            message,
            ..
        } = self.cell;
        let message = crate::why::without_next(message);
        let found = if message.is_empty() {
            reason.clone()
        } else {
            format!("{reason}: {message}")
        };
        Check {
            holds: false,
            shape: *shape,
            what,
            found,
        }
    }
}

/// What was assigned to a cluster, and what is known of that.
pub fn assemblage<'a>(objects: &'a Objects, kind: ModuleKind, cluster: &str) -> Option<Found<'a>> {
    match kind {
        ModuleKind::Module => objects
            .proxies
            .iter()
            .find(|proxy| proxy.name_any() == cluster)
            .map(|proxy| (&proxy.spec, proxy.status.as_ref())),
        ModuleKind::BootstrapModule => objects
            .remotes
            .iter()
            .find(|remote| remote.name_any() == cluster)
            .map(|remote| (&remote.spec, remote.status.as_ref())),
    }
}

const fn passes(what: &'static str, found: String) -> Check {
    Check {
        holds: true,
        shape: Shape::Ready,
        what,
        found,
    }
}

fn selected(seen: &Seen<'_>) -> Check {
    let what = "selected";
    if seen.module.deleting {
        let stops = seen.stops(what);
        let found = format!("the module is being deleted: {}", stops.found);
        return Check { found, ..stops };
    }
    let cluster = seen
        .objects
        .clusters
        .iter()
        .find(|cluster| cluster.name_any() == seen.cell.cluster);
    let labels = cluster.map(|cluster| cluster.labels());
    let told: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let told = if told.is_empty() {
        "no labels".to_owned()
    } else {
        told.join(", ")
    };
    let selector = seen
        .spec
        .map_or_else(|| "no selector".to_owned(), words::selector);
    let matches = seen.spec.zip(labels).is_some_and(|(spec, labels)| {
        // A selector that cannot be read selects nothing; the module's own condition says what is wrong with it.
        Matcher::new(spec.selector.as_ref()).is_ok_and(|matcher| matcher.matches(labels))
    });
    let found = format!(
        "{selector} {} {told}",
        if matches { "matches" } else { "does not match" }
    );
    // What it has is taken away, or will be.
    if !matches && seen.bucket() == Some(Bucket::Withdrawing) {
        let stops = seen.stops(what);
        let found = format!("{found}: {}", stops.found);
        return Check { found, ..stops };
    }
    Check {
        holds: matches,
        shape: if matches { Shape::Ready } else { Shape::NotSelected },
        what,
        found,
    }
}

fn reachable(seen: &Seen<'_>) -> Check {
    let what = "reachable";
    // Of what is not known nothing is claimed, this neither.
    if seen.bucket() == Some(Bucket::Skipped) || seen.cell.shape == Shape::Unknown {
        return seen.stops(what);
    }
    let status = seen.assemblage.and_then(|(_, status)| status);
    let said = status.and_then(|status| conditions::find(&status.conditions, REACHABLE));
    let found = match said {
        Some(said) => format!("{} since {}", said.reason, said.last_transition_time.0),
        None => "nothing is known against it".to_owned(),
    };
    passes(what, found)
}

fn left_alone(seen: &Seen<'_>) -> Check {
    let what = "holds";
    if seen.bucket() == Some(Bucket::Held) {
        return seen.stops(what);
    }
    passes(what, "none".to_owned())
}

fn in_turn(seen: &Seen<'_>) -> Check {
    let what = "its turn";
    if seen.bucket() == Some(Bucket::Waiting) {
        return seen.stops(what);
    }
    passes(what, format!("it may have {}", seen.module.version))
}

fn assigned(seen: &Seen<'_>) -> Check {
    let what = "assigned";
    match seen.row() {
        Some(row) if row.revision.is_some() && row.revision.as_deref() == seen.revision => {
            passes(what, format!("{} is what it was given", seen.module.version))
        }
        _ => seen.stops(what),
    }
}

fn picked_up(seen: &Seen<'_>) -> Check {
    let what = "picked up";
    if seen.echo().is_some() {
        passes(what, "the cluster answers about this very assignment".to_owned())
    } else {
        seen.stops(what)
    }
}

fn healthy(seen: &Seen<'_>) -> Check {
    let what = "healthy";
    match seen.echo().map(|state| (state.state, state.note())) {
        Some((SyncPhase::Succeeded, note)) if !matches!(seen.cell.shape, Shape::Failed) => {
            let note = note.map_or_else(String::new, |note| format!("; {note}"));
            passes(
                what,
                format!("applied and ready at {}{note}", seen.module.version),
            )
        }
        _ => seen.stops(what),
    }
}
