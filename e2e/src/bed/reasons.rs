//! Checks after every scenario: each status that a module ever had names each cluster's reason exactly once, with a
//! known word, and its counts match the reasons. Whether a reason is the right one is checked by the engine's own laws
//! (`rollout/tests/`), over all histories.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::{
    module::{Attention, ModuleStatus, ReasonGroup},
    ranges,
    reasons::{Bucket, ObjectReason, Reason},
};
use serde_json::Value;

/// What is wrong with one observed version of a module.
pub(crate) fn problems(module: &Value) -> Vec<String> {
    let Ok(status) = serde_json::from_value::<ModuleStatus>(module["status"].clone()) else {
        // Scenarios also write invalid statuses.
        return Vec::new();
    };
    // There was no decision: the content is from an earlier one.
    let idle = |reason: ObjectReason| {
        let word = reason.as_str();
        status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.reason == word)
    };
    let undecided = [
        ObjectReason::InvalidSpec,
        ObjectReason::Unsupported,
        ObjectReason::Suspended,
        ObjectReason::DependencyCycle,
    ];
    if status.summary.is_none() || undecided.into_iter().any(idle) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    for entry in &status.attention {
        if !named.insert(entry.cluster.as_str()) {
            found.push(format!("{} has two reasons", entry.cluster));
        }
        found.extend(unclear(entry));
    }
    found.extend(misgrouped(&status));
    found.extend(miscounted(&status));
    found
}

fn unclear(entry: &Attention) -> Option<String> {
    let Attention {
        cluster,
        reason,
        message,
        since,
    } = entry;
    let word: Result<Reason, _> = reason.parse();
    match word {
        Err(_) => Some(format!("{cluster}: {reason} is no reason")),
        Ok(Reason::UpToDate | Reason::Excluded) => Some(format!("{cluster}: {reason} needs no attention")),
        Ok(_) if message.is_empty() || since.is_none() => {
            Some(format!("{cluster}: {reason} without a message or a time"))
        }
        Ok(_) => None,
    }
}

/// The groups of `status.reasons`: known reasons in their order, each cluster in one group, with the same reason as in
/// `attention`.
fn misgrouped(status: &ModuleStatus) -> Vec<String> {
    let mut found = Vec::new();
    let mut of: BTreeMap<String, &str> = BTreeMap::new();
    let mut last = None;
    for ReasonGroup {
        reason,
        count,
        clusters,
        truncated,
        message: _,
    } in &status.reasons
    {
        let word = reason.parse::<Reason>().ok();
        if word.is_none() || word == Some(Reason::Excluded) || word <= last {
            found.push(format!("{reason} is not a reason of a group, or is out of order"));
        }
        last = word;
        let names = ranges::unfold(clusters, *count as usize).unwrap_or_default();
        if names.len() != *count as usize && !truncated {
            found.push(format!("{reason} counts {count} clusters and names {clusters}"));
        }
        for name in names {
            if let Some(other) = of.insert(name.clone(), reason) {
                found.push(format!("{name} is grouped as {other} and as {reason}"));
            }
        }
    }
    let entries = status.attention.iter();
    let differ = entries.filter(|entry| {
        of.get(&entry.cluster)
            .is_some_and(|reason| *reason != entry.reason)
    });
    found.extend(differ.map(|entry| {
        format!(
            "{} needs attention as {}, and is grouped otherwise",
            entry.cluster, entry.reason
        )
    }));
    found
}

/// Compares the counts with the groups.
fn miscounted(status: &ModuleStatus) -> Vec<String> {
    let Some(summary) = &status.summary else {
        return Vec::new();
    };
    let mut grouped: BTreeMap<&str, u32> = BTreeMap::new();
    for group in &status.reasons {
        if let Ok(reason) = group.reason.parse::<Reason>() {
            *grouped.entry(name(reason.bucket())).or_default() += group.count;
        }
    }
    let numbers = [
        (Bucket::Skipped, summary.skipped),
        (Bucket::Held, summary.held),
        (Bucket::Withdrawing, summary.withdrawing),
        (Bucket::Failed, summary.failed),
        (Bucket::Updating, summary.updating),
        (Bucket::Waiting, summary.waiting),
    ];
    let of = |bucket: Bucket| grouped.get(name(bucket)).copied().unwrap_or_default();
    let mut found: Vec<String> = numbers
        .iter()
        .filter(|(bucket, number)| of(*bucket) != *number)
        .map(|(bucket, number)| {
            format!(
                "{number} clusters are {}, and {} are grouped so",
                name(*bucket),
                of(*bucket)
            )
        })
        .collect();
    if summary.updated > summary.total {
        found.push(format!(
            "{} of {} clusters are updated",
            summary.updated, summary.total
        ));
    }
    found
}

const fn name(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Skipped => "skipped",
        Bucket::Held => "held",
        Bucket::Withdrawing => "withdrawing",
        Bucket::Failed => "failed",
        Bucket::Updating => "updating",
        Bucket::Waiting => "waiting",
        Bucket::Updated => "updated",
        Bucket::Excluded => "excluded",
    }
}
