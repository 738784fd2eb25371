//! The reason of each cluster, read from the status of a module: only what follows from the counts is inferred.

use std::collections::HashMap;

use muster_api::{
    module::{Attention, ModuleStatus, ReasonGroup},
    ranges,
    reasons::Reason,
};

/// More clusters than any fleet has: a group with more names in a status is not expanded.
const MAX_CLUSTERS: usize = 100_000;

/// What a status reports for a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReportedReason<'a> {
    /// An entry of `attention`.
    Attention(&'a Attention),
    /// A reason group that names the cluster.
    Group(&'a ReasonGroup),
    /// No group names the cluster, and its state is unknown.
    Unknown,
    /// The module does not select it.
    NotSelected,
}

/// What is known of a cluster in addition to the status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberFacts {
    /// Whether the spec selects it, or it has an assignment of the module.
    pub is_concerned: bool,
    /// Whether its report confirms the target.
    pub is_confirmed: bool,
}

/// The reasons in a status.
pub(crate) struct Reasons<'a> {
    attention: HashMap<&'a str, &'a Attention>,
    groups: HashMap<String, &'a ReasonGroup>,
    /// Groups that do not name their clusters, and how many of those are not in `attention`.
    unnamed: Vec<(&'a ReasonGroup, usize)>,
    /// Whether the status is about the current spec, so that a cluster in no group is not selected.
    is_current: bool,
}

impl<'a> Reasons<'a> {
    /// Reads the reasons of a status; `is_current` if it is about the current spec.
    pub(crate) fn of(status: &'a ModuleStatus, is_current: bool) -> Self {
        let all = &status.reasons;
        let mut groups = HashMap::new();
        let mut unnamed = Vec::new();
        for group in all {
            match ranges::unfold(&group.clusters, MAX_CLUSTERS.saturating_sub(groups.len())) {
                Ok(names) if !group.truncated => groups.extend(names.into_iter().map(|name| (name, group))),
                _ => unnamed.push(group),
            }
        }
        let attention = &status.attention;
        let named = |group: &ReasonGroup| attention.iter().filter(|one| one.reason == group.reason).count();
        let left = |group: &'a ReasonGroup| (group, (group.count as usize).saturating_sub(named(group)));
        Self {
            attention: attention.iter().map(|one| (one.cluster.as_str(), one)).collect(),
            groups,
            unnamed: unnamed.into_iter().map(left).collect(),
            is_current,
        }
    }

    /// What the status reports for each of these clusters, in the same order.
    pub(crate) fn each<'n>(
        &self,
        clusters: impl Iterator<Item = (&'n str, MemberFacts)>,
    ) -> Vec<ReportedReason<'a>> {
        let mut reported = Vec::new();
        // Clusters that no group names, though the module concerns them: the confirmed ones, and the others.
        let (mut confirmed, mut others) = (Vec::new(), Vec::new());
        for (name, known) in clusters {
            let found = match (self.attention.get(name), self.groups.get(name)) {
                (Some(one), _) => ReportedReason::Attention(one),
                (None, Some(group)) => ReportedReason::Group(group),
                (None, None) if known.is_concerned => {
                    let left = if known.is_confirmed {
                        &mut confirmed
                    } else {
                        &mut others
                    };
                    left.push(reported.len());
                    ReportedReason::Unknown
                }
                (None, None) if self.is_current => ReportedReason::NotSelected,
                (None, None) => ReportedReason::Unknown,
            };
            reported.push(found);
        }
        let mut fill = |places: &[usize], group: &'a ReasonGroup| {
            for place in places {
                if let Some(slot) = reported.get_mut(*place) {
                    *slot = ReportedReason::Group(group);
                }
            }
        };
        // Clusters whose reports confirm the target are up to date if their number equals the count of that group; the
        // rest belong to the one remaining group if their number equals its count. Otherwise they cannot be
        // distinguished.
        let mut left = self.unnamed.clone();
        let up_to_date = left.iter().position(|(group, count)| {
            group.reason == Reason::UpToDate.as_str() && *count == confirmed.len()
        });
        match up_to_date {
            Some(place) => fill(&confirmed, left.swap_remove(place).0),
            None => others.append(&mut confirmed),
        }
        if let [(group, count)] = left[..]
            && count == others.len()
        {
            fill(&others, group);
        }
        reported
    }
}
