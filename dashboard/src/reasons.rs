//! The reason of each cluster, read from the status of a module: nothing here is worked out but what follows from the counts.

use std::collections::HashMap;

use muster_api::{
    module::{Attention, ModuleStatus, ReasonGroup},
    ranges,
    reasons::Reason,
};

/// More clusters than any fleet has: a status that names more is not unfolded.
const MAX_CLUSTERS: usize = 100_000;

/// What a status says of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Says<'a> {
    /// It is one of those that need attention.
    Attention(&'a Attention),
    /// It is in this group.
    Group(&'a ReasonGroup),
    /// It is in no group that names its clusters, and more is not known.
    Unknown,
    /// The module does not select it.
    NotSelected,
}

/// What is known of a cluster besides the status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The spec selects it, or a row of the module is there.
    pub is_concerned: bool,
    /// Its row confirms the target.
    pub is_confirmed: bool,
}

/// The reasons that a status names.
pub(crate) struct Reasons<'a> {
    attention: HashMap<&'a str, &'a Attention>,
    groups: HashMap<String, &'a ReasonGroup>,
    /// Groups that do not name their clusters, and how many of those are not among the ones that need attention.
    unnamed: Vec<(&'a ReasonGroup, usize)>,
    /// Whether what is in no group is in none for the spec as it is.
    is_current: bool,
}

impl<'a> Reasons<'a> {
    /// Those of a status, which is about the spec as it is, or not.
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

    /// What is said of each of these clusters, in their order.
    pub(crate) fn each<'n>(&self, clusters: impl Iterator<Item = (&'n str, Known)>) -> Vec<Says<'a>> {
        let mut says = Vec::new();
        // Which of them no group names, though the module is about them: those that are confirmed, and the others.
        let (mut confirmed, mut others) = (Vec::new(), Vec::new());
        for (name, known) in clusters {
            let found = match (self.attention.get(name), self.groups.get(name)) {
                (Some(one), _) => Says::Attention(one),
                (None, Some(group)) => Says::Group(group),
                (None, None) if known.is_concerned => {
                    let left = if known.is_confirmed {
                        &mut confirmed
                    } else {
                        &mut others
                    };
                    left.push(says.len());
                    Says::Unknown
                }
                (None, None) if self.is_current => Says::NotSelected,
                (None, None) => Says::Unknown,
            };
            says.push(found);
        }
        let mut fill = |places: &[usize], group: &'a ReasonGroup| {
            for place in places {
                if let Some(says) = says.get_mut(*place) {
                    *says = Says::Group(group);
                }
            }
        };
        // Clusters whose rows confirm the target are up to date if they are as many as that group counts; the rest are of the one group that is
        // left, if they are as many as that counts. Otherwise which is which is not known.
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
        says
    }
}
