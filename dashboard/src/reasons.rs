//! The reason of each cluster, read from the status of a module: nothing here is worked out but what follows from the counts.

use std::collections::HashMap;

use muster_api::{
    module::{Attention, ModuleObject, ModuleStatus, ReasonGroup},
    ranges,
    reasons::Reason,
};

/// More clusters than any fleet has: a status that names more is not unfolded.
const MAX_CLUSTERS: usize = 100_000;

/// What a status says of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Says<'a> {
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
pub struct Known {
    /// The spec selects it, or a row of the module is there.
    pub is_concerned: bool,
    /// Its row confirms the target.
    pub is_confirmed: bool,
}

/// The reasons that a status names.
pub struct Reasons<'a> {
    attention: HashMap<&'a str, &'a Attention>,
    groups: HashMap<String, &'a ReasonGroup>,
    /// Groups that do not name their clusters.
    unnamed: Vec<&'a ReasonGroup>,
    /// Whether what is in no group is in none for the spec as it is.
    is_current: bool,
}

impl<'a> Reasons<'a> {
    /// The reasons of a module.
    pub fn of<K: ModuleObject>(module: &'a K) -> Self {
        let status: Option<&'a ModuleStatus> = module.status();
        let all = status.map_or(&[][..], |status| &status.reasons);
        let mut groups = HashMap::new();
        let mut unnamed = Vec::new();
        for group in all {
            match ranges::unfold(&group.clusters, MAX_CLUSTERS) {
                Ok(names) if !group.truncated => groups.extend(names.into_iter().map(|name| (name, group))),
                _ => unnamed.push(group),
            }
        }
        let observed = status.and_then(|status| status.observed_generation);
        let attention = status.map_or(&[][..], |status| &status.attention);
        Self {
            attention: attention.iter().map(|one| (one.cluster.as_str(), one)).collect(),
            groups,
            unnamed,
            is_current: observed.is_some() && observed == module.meta().generation,
        }
    }

    /// What is said of each of these clusters, in their order.
    pub fn each<'n>(&self, clusters: impl Iterator<Item = (&'n str, Known)>) -> Vec<Says<'a>> {
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
        let is_up_to_date = |group: &&&ReasonGroup| group.reason == Reason::UpToDate.as_str();
        let mut fill = |places: &[usize], group: &'a ReasonGroup| {
            for place in places {
                if let Some(says) = says.get_mut(*place) {
                    *says = Says::Group(group);
                }
            }
        };
        // With one group alone that names nobody, whoever is left is in it, if they are as many; those that are confirmed tell themselves.
        let up_to_date = self.unnamed.iter().find(is_up_to_date).copied();
        let rest: Vec<&'a ReasonGroup> = self
            .unnamed
            .iter()
            .filter(|group| !is_up_to_date(group))
            .copied()
            .collect();
        if let Some(group) = up_to_date {
            fill(&confirmed, group);
        } else {
            others.append(&mut confirmed);
        }
        if let [group] = rest[..]
            && usize::try_from(group.count).is_ok_and(|count| count == others.len())
        {
            fill(&others, group);
        }
        says
    }
}
