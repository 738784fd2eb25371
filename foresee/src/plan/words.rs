//! Text that the text and Markdown formats of a plan share.

use muster_api::Duration;
use muster_dashboard::listed;
use muster_fleet::text::counted;

use super::model::{Change, Fate, Field, Gives, ModulePlan, Move, ObjectChange, Step, Target, Took};

/// The most names shown of one batch, after folding.
const NAMES: usize = 6;
/// From this number of batches of a stage, those in the middle are counted.
const BATCHES: usize = 6;
/// The most fields shown of one object.
const LEAVES: usize = 4;
/// The most objects shown of one module.
pub(crate) const OBJECTS: usize = 20;
/// How many batches are shown before the counted ones.
const FIRST: usize = 3;

/// The change of the module, in one line.
pub(crate) fn title(module: &ModulePlan) -> String {
    let version = |target: &Option<Target>| target.as_ref().map_or("?", |target| &target.version).to_owned();
    let (from, to) = (version(&module.from), version(&module.to));
    let what = match module.change {
        Change::Added => format!("new, at {to}"),
        Change::Removed => format!("removed, was at {from}"),
        Change::Changed | Change::Around if from == to => to,
        Change::Changed | Change::Around => format!("{from} → {to}"),
    };
    format!("{}: {what}", module.module)
}

/// The revision that approvals name, before and after.
pub(crate) fn revision(module: &ModulePlan) -> Option<String> {
    let short = |target: &Option<Target>| {
        let revision = target.as_ref()?.revision.as_ref()?;
        Some(revision.get(..8).unwrap_or(revision).to_owned())
    };
    let commit = module.to.as_ref().and_then(|to| to.commit.as_ref());
    let commit = commit.map_or_else(String::new, |commit| {
        format!(" (commit {})", commit.get(..8).unwrap_or(commit))
    });
    match (short(&module.from), short(&module.to)) {
        (Some(from), Some(to)) if from == to => Some(format!("{to}, as before{commit}")),
        (Some(from), Some(to)) => Some(format!("{from} → {to}{commit}")),
        (None, Some(to)) => Some(format!("{to}{commit}")),
        (_, None) => None,
    }
}

/// How many clusters it selects, which join and which leave; for a removed module, which lose it.
pub(crate) fn selects(module: &ModulePlan) -> String {
    let names = |names: &[String]| listed(names.iter().map(String::as_str), NAMES);
    if module.change == Change::Removed {
        let loses = &module.loses;
        return match &loses[..] {
            [] => "no cluster loses it".to_owned(),
            [only] => format!("1 cluster loses it: {only}"),
            _ => format!("{} clusters lose it: {}", loses.len(), names(loses)),
        };
    }
    let selected = counted(module.selected.len(), "cluster", "clusters");
    let mut parts = vec![format!("selects {selected}")];
    if !module.joins.is_empty() {
        parts.push(format!("+{} join: {}", module.joins.len(), names(&module.joins)));
    }
    if !module.leaves.is_empty() {
        parts.push(format!(
            "-{} leave: {}",
            module.leaves.len(),
            names(&module.leaves)
        ));
    }
    parts.join("; ")
}

/// Which module takes over, and where.
pub(crate) fn moves(to: &Move) -> String {
    format!("moves to {} on {}", to.to, who(&to.clusters))
}

/// A field that changes.
pub(crate) fn field(field: &Field) -> String {
    let Field { path, from, to } = field;
    match (from, to) {
        (Some(from), Some(to)) => format!("{path}: {from} → {to}"),
        (None, Some(to)) => format!("{path}: {to}"),
        (Some(from), None) => format!("{path}: {from} → nothing"),
        (None, None) => path.clone(),
    }
}

/// The change of an object, and its clusters.
pub(crate) fn object(change: &ObjectChange) -> String {
    let ObjectChange {
        fate,
        object,
        fields,
        clusters,
    } = change;
    let sign = match fate {
        Fate::Created => '+',
        Fate::Changed => '~',
        Fate::Removed => '-',
        Fate::Moved => '→',
    };
    let shown: Vec<String> = fields.iter().take(LEAVES).map(field).collect();
    let more = match fields.len().saturating_sub(LEAVES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let colon = if fields.is_empty() { "" } else { ": " };
    format!(
        "{sign} {object} on {}{colon}{}{more}",
        who(clusters),
        shown.join(", ")
    )
}

/// The steps; batches in the middle of a long stage are counted.
pub(crate) fn order(steps: &[Step]) -> Vec<String> {
    let mut words = Vec::new();
    let has_stages = steps
        .iter()
        .any(|step| matches!(step, Step::Change { stage: Some(_), .. }));
    let mut last_stage: Option<&Option<String>> = None;
    for run in steps.chunk_by(|a, b| kind(a).is_some() && kind(a) == kind(b)) {
        let Some(Step::Change { stage, gives, .. }) = run.first() else {
            words.extend(run.iter().map(stop));
            continue;
        };
        let leaves = matches!(gives, Gives::Withdrawal | Gives::Move);
        let heading = (has_stages && !leaves && last_stage != Some(stage))
            .then(|| format!("{}: ", stage.as_deref().unwrap_or("others")));
        last_stage = Some(stage);
        let mut batches = batches(run, *gives);
        if let (Some(heading), Some(first)) = (heading, batches.first_mut()) {
            first.insert_str(0, &heading);
        }
        words.extend(batches);
    }
    words
}

/// Steps of the same kind are one run.
fn kind(step: &Step) -> Option<(&Option<String>, Gives)> {
    match step {
        Step::Change { stage, gives, .. } => Some((stage, *gives)),
        Step::Pass { .. } | Step::Open { .. } | Step::Acknowledge { .. } => None,
    }
}

fn batches(run: &[Step], gives: Gives) -> Vec<String> {
    let clusters: Vec<&Vec<String>> = run
        .iter()
        .filter_map(|step| match step {
            Step::Change { clusters, .. } => Some(clusters),
            Step::Pass { .. } | Step::Open { .. } | Step::Acknowledge { .. } => None,
        })
        .collect();
    let word = |clusters: &&Vec<String>| batch(clusters, gives);
    if clusters.len() <= BATCHES {
        return clusters.iter().map(word).collect();
    }
    let (first, rest) = clusters.split_at(FIRST);
    let (middle, last) = rest.split_at(rest.len() - 1);
    let many: usize = middle.iter().map(|clusters| clusters.len()).sum();
    let omitted = format!(
        "… {} with {} …",
        counted(middle.len(), "more batch", "more batches"),
        counted(many, "cluster", "clusters")
    );
    first
        .iter()
        .map(word)
        .chain([omitted])
        .chain(last.iter().map(word))
        .collect()
}

fn batch(clusters: &[String], gives: Gives) -> String {
    let names = listed(clusters.iter().map(String::as_str), NAMES);
    let names = if clusters.len() > 1 {
        format!("[{names}]")
    } else {
        names
    };
    match gives {
        Gives::Target => names,
        Gives::LastGood => format!("{names} (the last good version first)"),
        Gives::Pin => format!("{names} (the pinned revision)"),
        Gives::Withdrawal => format!("{names} (withdrawn)"),
        Gives::Move => format!("{names} (moved)"),
    }
}

/// What a step waits for.
fn stop(step: &Step) -> String {
    match step {
        Step::Pass {
            stage,
            soak,
            gates,
            approval,
        } => {
            let gates = match gates {
                0 => None,
                1 => Some("1 gate".to_owned()),
                many => Some(format!("{many} gates")),
            };
            let soak = soak.map(|soak| format!("soak {soak}"));
            let approval = approval.then(|| "approval".to_owned());
            let parts: Vec<String> = soak.into_iter().chain(gates).chain(approval).collect();
            format!("⏸ {stage}: {}", parts.join(", "))
        }
        Step::Open { at, window, clusters } => format!("⏸ {} not before {at} ({window})", who(clusters)),
        Step::Acknowledge { clusters, .. } => {
            let withdrawals = counted(
                usize::try_from(*clusters).unwrap_or(usize::MAX),
                "withdrawal",
                "withdrawals",
            );
            format!("⏸ the brake (rollout.withdraw.brake) holds {withdrawals} until acknowledged")
        }
        Step::Change { .. } => String::new(),
    }
}

/// The commands that a user will have to run.
pub(crate) fn commands(module: &ModulePlan) -> Vec<String> {
    let approvals = module.order.iter().filter_map(|step| match step {
        Step::Pass {
            stage,
            approval: true,
            ..
        } => Some(format!(
            "muster rollout approve {} --stage {stage} -n {}",
            module.module, module.namespace
        )),
        Step::Acknowledge { .. } => Some(format!(
            "muster rollout withdraw {} --acknowledge -n {}",
            module.module, module.namespace
        )),
        Step::Pass { .. } | Step::Open { .. } | Step::Change { .. } => None,
    });
    approvals.collect()
}

/// An estimate of the duration, from past rollouts.
pub(crate) fn took(took: Took) -> String {
    let time = |seconds: u64| Duration::from_secs(seconds).to_string();
    let (shortest, longest) = (time(took.shortest_seconds), time(took.longest_seconds));
    match took.rollouts {
        1 => format!("the last good rollout took {longest}"),
        many if shortest == longest => format!("the last {many} good rollouts took {longest}"),
        many => format!("the last {many} good rollouts took {shortest} to {longest}"),
    }
}

/// The clusters of a line about skipped clusters.
pub(crate) fn who(clusters: &[String]) -> String {
    listed(clusters.iter().map(String::as_str), NAMES)
}
