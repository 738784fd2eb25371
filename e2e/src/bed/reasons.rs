//! What every scenario must leave behind: each status that a module ever had told each cluster's reason once, in words that are known, and its
//! numbers are those of the reasons. Which reason is the true one is held by the engine's own laws (`rollout/tests/`), over all histories.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::{
    module::{Attention, ModuleStatus},
    reasons::{Bucket, ObjectReason, Reason},
    schema::MAX_ATTENTION,
};
use serde_json::Value;

/// What is wrong in a module as it stood once.
pub fn problems(module: &Value) -> Vec<String> {
    let Ok(status) = serde_json::from_value::<ModuleStatus>(module["status"].clone()) else {
        // Scenarios write statuses that mean ill.
        return Vec::new();
    };
    // Nothing was decided: what stands there is from before.
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
    for told in &status.attention {
        if !named.insert(told.cluster.as_str()) {
            found.push(format!("{} has two reasons", told.cluster));
        }
        found.extend(unclear(told));
    }
    found.extend(miscounted(&status));
    found
}

fn unclear(told: &Attention) -> Option<String> {
    let Attention {
        cluster,
        reason,
        message,
        since,
    } = told;
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

/// The numbers against the reasons that are told; of many clusters only the worst are.
fn miscounted(status: &ModuleStatus) -> Vec<String> {
    let Some(summary) = &status.summary else {
        return Vec::new();
    };
    let mut told: BTreeMap<&str, u32> = BTreeMap::new();
    for bucket in status
        .attention
        .iter()
        .filter_map(|told| told.reason.parse::<Reason>().ok())
        .map(Reason::bucket)
    {
        *told.entry(name(bucket)).or_default() += 1;
    }
    let numbers = [
        (Bucket::Skipped, summary.skipped),
        (Bucket::Held, summary.held),
        (Bucket::Withdrawing, summary.withdrawing),
        (Bucket::Failed, summary.failed),
        (Bucket::Updating, summary.updating),
        (Bucket::Waiting, summary.waiting),
    ];
    let all = status.attention.len() < MAX_ATTENTION;
    let differs = |(bucket, number): &(Bucket, u32)| {
        let told = told.get(name(*bucket)).copied().unwrap_or_default();
        if all { told != *number } else { told > *number }
    };
    let mut found: Vec<String> = numbers
        .iter()
        .filter(|number| differs(number))
        .map(|(bucket, number)| {
            format!(
                "{number} clusters are {}, and {:?} are told",
                name(*bucket),
                told.get(name(*bucket))
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
