//! The fleet in one sentence, and what in it needs a person.

use muster_api::{
    module::ModuleKind,
    reasons::{ObjectReason, Reason},
};
use serde::Serialize;

use crate::{Cell, Fleet, ModuleView, Shape, Why, why};

/// Names in the sentence; more are counted.
const SHOWN: usize = 3;

/// The fleet in one sentence, and the modules with something to tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// How the fleet stands: as the module that stands worst.
    pub shape: Shape,
    /// The sentence.
    pub headline: String,
    /// What does not go on, or not well, without somebody; most urgent first.
    pub attention: Vec<Concern>,
    /// What goes on by itself.
    pub moving: Vec<Concern>,
}

/// A module with something to tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Concern {
    /// Module or BootstrapModule.
    pub kind: ModuleKind,
    /// Its name.
    pub module: String,
    /// How it stands at its worst.
    pub shape: Shape,
    /// The cluster that stands worst, if it is a cluster's matter.
    pub cluster: Option<String>,
    /// Why, as `muster why` tells it.
    pub why: Why,
}

impl Overview {
    /// Of a fleet.
    pub fn of(fleet: &Fleet) -> Self {
        let (mut attention, mut moving) = (Vec::new(), Vec::new());
        for module in &fleet.modules {
            let worst = module
                .cells
                .iter()
                .filter(|cell| needs_person(cell))
                .min_by_key(|cell| (cell.shape.urgency(), &cell.cluster));
            let is_open = |cell: &Cell| !matches!(cell.shape, Shape::Ready | Shape::NotSelected);
            if worst.is_some() || is_stuck(module) {
                attention.push(concern(module, worst));
            } else if module.shape() != Shape::Ready || module.cells.iter().any(is_open) {
                moving.push(concern(module, None));
            }
        }
        attention.sort_by_key(|concern| concern.shape.urgency());
        let shape = attention
            .iter()
            .chain(&moving)
            .map(|concern| concern.shape)
            .min_by_key(|shape| shape.urgency());
        Self {
            shape: shape.unwrap_or(Shape::Ready),
            headline: headline(fleet, &attention, &moving),
            attention,
            moving,
        }
    }
}

/// Whether a cluster stays as it is until somebody does something: it failed, cannot be reached, is held, or waits for a word.
fn needs_person(cell: &Cell) -> bool {
    match cell.shape {
        Shape::Failed | Shape::Unreachable | Shape::Held => true,
        Shape::Waiting => cell.reason.parse().is_ok_and(|reason| {
            matches!(
                reason,
                Reason::KnownBad
                    | Reason::Halted
                    | Reason::Aborted
                    | Reason::Paused
                    | Reason::WaitingApproval
                    | Reason::SourceNotReady
            )
        }),
        Shape::Updating => cell.reason == Reason::WithdrawalHeld.as_str(),
        Shape::Ready | Shape::NotSelected => false,
    }
}

/// Whether it is the module itself that does not go on.
fn is_stuck(module: &ModuleView) -> bool {
    let goes_on = |reason: &str| {
        [ObjectReason::Pending, ObjectReason::Progressing]
            .iter()
            .any(|word| word.as_str() == reason)
    };
    let is_quiet = module
        .cells
        .iter()
        .all(|cell| matches!(cell.shape, Shape::Ready | Shape::NotSelected));
    module.stalled || (module.ready != "True" && is_quiet && !goes_on(&module.reason))
}

fn concern(module: &ModuleView, worst: Option<&Cell>) -> Concern {
    Concern {
        kind: module.kind,
        module: module.name.clone(),
        shape: worst.map_or_else(|| module.shape(), |cell| cell.shape),
        cluster: worst.map(|cell| cell.cluster.clone()),
        why: why(module, None),
    }
}

fn headline(fleet: &Fleet, attention: &[Concern], moving: &[Concern]) -> String {
    let all = format!(
        "{} × {}.",
        counted(fleet.modules.len(), "module"),
        counted(fleet.clusters.len(), "cluster")
    );
    if fleet.modules.is_empty() {
        return format!("{all} There is no module yet.");
    }
    let named: Vec<String> = attention
        .iter()
        .take(SHOWN)
        .map(|concern| match &concern.cluster {
            Some(cluster) => format!("{} on {cluster}", concern.module),
            None => concern.module.clone(),
        })
        .collect();
    let more = match attention.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match (attention.len(), moving.len()) {
        (0, 0) => format!("{all} All is well."),
        (0, some) => format!(
            "{all} Nothing needs attention; {} on the way.",
            counted(some, "module")
        ),
        (1, _) => format!("{all} 1 needs attention: {}.", named.join(", ")),
        (some, _) => format!("{all} {some} need attention: {}{more}.", named.join(", ")),
    }
}

fn counted(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}
