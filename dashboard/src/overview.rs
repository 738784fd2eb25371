//! The fleet in one sentence, and what needs attention.

use muster_api::reasons::{ObjectReason, Reason};

use crate::{
    Cell, Fleet, Kind, Member, ModuleRef, ModuleView, PageLocation, Shape, Step, Why, listed, shell_word,
    why,
    why::next_action,
    words::{counted, without_next},
};

/// Names listed in the sentence; more are counted.
const SHOWN: usize = 3;

/// The fleet in one sentence, and the details.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// State of the fleet: the worst state in it.
    pub shape: Shape,
    /// What needs attention, in one sentence.
    pub sentence: String,
    /// What is failed, or stuck until a person acts; most urgent first.
    pub attention: Vec<AttentionItem>,
    /// What is in progress and needs nothing.
    pub moving: Vec<AttentionItem>,
    /// What is held or pinned on purpose.
    pub held: Vec<AttentionItem>,
}

/// A module or cluster that needs a mention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionItem {
    /// Page of the module or cluster.
    pub about: PageLocation,
    /// Its worst state.
    pub shape: Shape,
    /// Short title: a name, and where.
    pub title: String,
    /// The explanation, as `muster why` prints it.
    pub why: Why,
}

impl Overview {
    /// Builds the overview of a fleet.
    pub fn of(fleet: &Fleet) -> Self {
        let mut attention = skipped(fleet);
        let mut moving = Vec::new();
        for module in &fleet.modules {
            let worst = module
                .cells
                .iter()
                .filter(|cell| needs_person(cell))
                .min_by_key(|cell| (cell.shape.urgency(), &cell.cluster));
            if worst.is_some() || is_stuck(module) {
                attention.push(attention_item(module, worst));
            } else if module.cells.iter().any(goes_on) || is_beginning(module) {
                moving.push(attention_item(module, None));
            }
        }
        attention.sort_by_key(|concern| concern.shape.urgency());
        let held = held(fleet);
        let all = attention.iter().chain(&moving).chain(&held);
        let shape = all
            .map(|concern| concern.shape)
            .min_by_key(|shape| shape.urgency());
        Self {
            shape: shape.unwrap_or(Shape::Ready),
            sentence: sentence(fleet, &attention, &moving, &held),
            attention,
            moving,
            held,
        }
    }
}

/// Whether a cluster stays as it is with this module until a person acts.
fn needs_person(cell: &Cell) -> bool {
    match cell.shape {
        Shape::Failed | Shape::WaitsForYou => true,
        Shape::Unreachable => !is_of_unit(cell),
        Shape::Waiting => cell.reason.parse().is_ok_and(|reason| {
            matches!(
                reason,
                Reason::KnownBad
                    | Reason::Halted
                    | Reason::Aborted
                    | Reason::Paused
                    | Reason::WaitingApproval
                    | Reason::SourceNotReady
                    | Reason::VerificationFailed
            )
        }),
        Shape::Updating | Shape::Unknown | Shape::Held | Shape::Ready | Shape::NotSelected => false,
    }
}

fn goes_on(cell: &Cell) -> bool {
    matches!(cell.shape, Shape::Updating | Shape::Waiting)
}

/// Whether the reason lies with the cluster or node, the same for every module.
fn is_of_unit(cell: &Cell) -> bool {
    cell.reason.parse().is_ok_and(|reason| {
        matches!(
            reason,
            Reason::Deleting
                | Reason::ClusterPaused
                | Reason::ControlPlaneNotReady
                | Reason::NoKubeconfig
                | Reason::KubeconfigRejected
                | Reason::CredentialsRejected
                | Reason::Unreachable
                | Reason::NodeNotReady
                | Reason::NodeUnsupported
                | Reason::AgentMissing
                | Reason::AgentTooOld
        )
    })
}

/// Whether the module was not reconciled yet, or its rollout has just started.
fn is_beginning(module: &ModuleView) -> bool {
    module.ready != "True"
        && [ObjectReason::Pending, ObjectReason::Progressing]
            .iter()
            .any(|word| word.as_str() == module.reason)
}

/// Whether the module itself is stuck.
fn is_stuck(module: &ModuleView) -> bool {
    let is_quiet = module.cells.iter().all(|cell| !cell.shape.is_open());
    module.stalled || (module.ready != "True" && is_quiet && !is_beginning(module))
}

fn attention_item(module: &ModuleView, worst: Option<&Cell>) -> AttentionItem {
    AttentionItem {
        about: PageLocation::Module(ModuleRef {
            kind: module.kind,
            name: module.name.clone(),
        }),
        shape: worst.map_or_else(|| module.shape(), |cell| cell.shape),
        title: match worst {
            // One entry, however many clusters it affects.
            Some(cell) if cell.shape == Shape::WaitsForYou => format!("{} waits for you", module.name),
            Some(cell) => format!("{} on {}", module.name, cell.cluster),
            None => module.name.clone(),
        },
        why: why(module),
    }
}

/// Clusters that every module skips, one entry each: the cause lies with the cluster, not with the modules that wait
/// for it.
fn skipped(fleet: &Fleet) -> Vec<AttentionItem> {
    by_cluster(fleet, is_of_unit, next_action)
}

/// Clusters that are held or pinned, one entry each.
fn held(fleet: &Fleet) -> Vec<AttentionItem> {
    let see = |module: &ModuleView, cell: &Cell| {
        let (name, within) = (shell_word(&cell.cluster), module.within());
        let command = match module.kind {
            Kind::NodeModule => format!("muster why {} --node {name}", shell_word(&module.address())),
            _ => format!("muster tree cluster/{name}{within}"),
        };
        Some(("to see who holds it, and why".to_owned(), Some(command)))
    };
    by_cluster(fleet, |cell| cell.shape == Shape::Held, see)
}

fn by_cluster(
    fleet: &Fleet,
    is_meant: impl Fn(&Cell) -> bool,
    next: impl Fn(&ModuleView, &Cell) -> Option<(String, Option<String>)>,
) -> Vec<AttentionItem> {
    let about = |(place, cluster): (usize, &Member)| {
        let cell_of = |module: &ModuleView| module.cells.get(place).filter(|cell| is_meant(cell)).cloned();
        let mut on_it: Vec<(&ModuleView, Cell)> = fleet
            .modules
            .iter()
            .filter_map(|module| Some((module, cell_of(module)?)))
            .collect();
        on_it.sort_by(|(_, a), (_, b)| (&a.reason, &a.message).cmp(&(&b.reason, &b.message)));
        let alike = on_it.chunk_by(|(_, a), (_, b)| (&a.reason, &a.message) == (&b.reason, &b.message));
        let steps = alike.filter_map(|alike| {
            let (_, cell) = alike.first()?;
            Some(Step {
                shape: cell.shape,
                who: listed(alike.iter().map(|(module, _)| module.name.as_str()), SHOWN),
                cluster: None,
                reason: cell.reason.clone(),
                message: without_next(&cell.message).to_owned(),
                since: alike.iter().filter_map(|(_, cell)| cell.since).min(),
            })
        });
        let steps: Vec<Step> = steps.collect();
        let (module, cell) = on_it.first()?;
        let (words, command) = next(module, cell).unzip();
        let headline = format!("{}: {}", cluster.name, cell.reason);
        Some(AttentionItem {
            about: PageLocation::unit(fleet.kind, cluster.name.clone()),
            shape: cell.shape,
            title: cluster.name.clone(),
            why: Why::of(headline, steps, words, command.flatten()),
        })
    };
    fleet.clusters.iter().enumerate().filter_map(about).collect()
}

fn sentence(
    fleet: &Fleet,
    attention: &[AttentionItem],
    moving: &[AttentionItem],
    held: &[AttentionItem],
) -> String {
    if fleet.modules.is_empty() {
        return format!("there is no {} yet", fleet.kind.word());
    }
    let named = list_titles(attention);
    match (attention.len(), moving.len()) {
        (0, 0) => format!("all is well{}", on_purpose(held, fleet.kind)),
        (0, some) => format!(
            "nothing needs attention; {} on the way{}",
            counted(some, fleet.kind.word()),
            on_purpose(held, fleet.kind)
        ),
        (1, _) => format!("1 needs attention: {named}"),
        (some, _) => format!("{some} need attention: {named}"),
    }
}

/// Lists some by title and counts the others.
fn list_titles<'a>(concerns: impl IntoIterator<Item = &'a AttentionItem>) -> String {
    let titles: Vec<&str> = concerns.into_iter().map(|concern| &*concern.title).collect();
    let shown = titles.get(..SHOWN).unwrap_or(&titles).join(", ");
    match titles.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Clusters that are not at the target on purpose: those held, and those only pinned.
fn on_purpose(held: &[AttentionItem], kind: Kind) -> String {
    let is_pinned = |concern: &&AttentionItem| {
        let mut steps = concern.why.steps.iter();
        steps.all(|step| step.reason == Reason::Pinned.as_str())
    };
    let (pinned, held): (Vec<&AttentionItem>, Vec<&AttentionItem>) = held.iter().partition(is_pinned);
    let words = |concerns: &[&AttentionItem], how: &str| match concerns {
        [] => String::new(),
        some => format!(
            "; {} {how}: {}",
            counted(some.len(), kind.unit()),
            list_titles(some.iter().copied())
        ),
    };
    words(&held, "held on purpose") + &words(&pinned, "pinned")
}
