//! `status.reasons`: every reason with all of its clusters. Pure.

use std::collections::BTreeMap;

use muster_api::{
    conditions::bounded,
    module::ReasonGroup,
    ranges,
    reasons::Reason,
    schema::{MAX_MESSAGE, MAX_REASONS_SIZE},
};

use super::reasons::Explained;

/// Bytes of JSON in a group in addition to its names and its message: keys, braces and a count.
const FRAME: usize = 128;

/// The groups in order of precedence. If not all names fit, the largest groups omit theirs.
pub(crate) fn groups(explained: &[Explained<'_>]) -> Vec<ReasonGroup> {
    let mut members: BTreeMap<Reason, Vec<&Explained<'_>>> = BTreeMap::new();
    for entry in explained {
        members.entry(entry.reason).or_default().push(entry);
    }
    members.remove(&Reason::Excluded);
    let mut groups: Vec<ReasonGroup> = members
        .iter()
        .map(|(reason, entries)| group(*reason, entries))
        .collect();
    let mut smallest: Vec<&mut ReasonGroup> = groups.iter_mut().collect();
    smallest.sort_by_key(|group| group.clusters.len());
    let mut room = MAX_REASONS_SIZE;
    for group in &smallest {
        room = room.saturating_sub(FRAME + group.message.as_deref().map_or(0, as_json));
    }
    for group in smallest {
        if let Some(left) = room.checked_sub(group.clusters.len()) {
            room = left;
        } else {
            (group.clusters, group.truncated) = (String::new(), true);
        }
    }
    groups
}

fn group(reason: Reason, entries: &[&Explained<'_>]) -> ReasonGroup {
    let message = entries
        .first()
        .filter(|first| reason != Reason::UpToDate && entries.iter().all(|other| first.says_the_same(other)));
    ReasonGroup {
        reason: reason.into(),
        count: u32::try_from(entries.len()).unwrap_or(u32::MAX),
        clusters: ranges::fold(entries.iter().map(|entry| entry.cluster)),
        truncated: false,
        message: message.map(|entry| bounded(&entry.message(), MAX_MESSAGE).into_owned()),
    }
}

/// The length of a text as JSON in bytes, quotes included.
fn as_json(text: &str) -> usize {
    serde_json::Value::from(text).to_string().len()
}

#[cfg(test)]
mod tests {
    use muster_rollout::{Absence, Ineligible, UnitId, Why};

    use super::*;
    use crate::module::reasons::{Background, explain_reason};

    /// The groups of these clusters, with their obstacles.
    fn of(clusters: &[(String, Why)], obstacles: &BTreeMap<String, String>) -> Vec<ReasonGroup> {
        let background = Background::plain(obstacles);
        let units: Vec<(UnitId, &Why)> = clusters
            .iter()
            .map(|(name, why)| (name.as_str().into(), why))
            .collect();
        let explained: Vec<Explained<'_>> = units
            .iter()
            .map(|(unit, why)| explain_reason(unit, why, &background))
            .collect();
        groups(&explained)
    }

    fn unreachable() -> Why {
        let reason = Ineligible {
            code: Reason::Unreachable.code(),
            rank: Reason::Unreachable.code(),
            absence: Absence::Skip,
        };
        Why::Ineligible { reason, since: None }
    }

    fn turn() -> Why {
        Why::WaitingTurn {
            holders: ["dev-1".into()].into(),
            limit: 1,
        }
    }

    fn in_short(groups: &[ReasonGroup]) -> Vec<(&str, u32, &str, bool)> {
        let groups = groups.iter();
        groups
            .map(|group| {
                (
                    group.reason.as_str(),
                    group.count,
                    group.clusters.as_str(),
                    group.truncated,
                )
            })
            .collect()
    }

    #[test]
    fn each_cluster_is_in_the_group_of_its_reason_and_what_is_not_selected_in_none() {
        let clusters = [
            ("dev-1", Why::UpToDate),
            ("eu-01", turn()),
            ("eu-02", turn()),
            ("lab", Why::Excluded),
            ("us-1", unreachable()),
            ("us-2", unreachable()),
        ];
        let clusters = clusters.map(|(name, why)| (name.to_owned(), why));
        let same = ["us-1", "us-2"].map(|name| (name.to_owned(), "no route to 10.0.0.0/8".to_owned()));
        let groups_ = of(&clusters, &same.into());
        assert_eq!(
            in_short(&groups_),
            [
                ("Unreachable", 2, "us-{1..2}", false),
                ("WaitingTurn", 2, "eu-{01..02}", false),
                ("UpToDate", 1, "dev-1", false),
            ]
        );
        let messages = |groups: &[ReasonGroup]| {
            groups
                .iter()
                .map(|group| group.message.clone())
                .collect::<Vec<_>>()
        };
        let turn = Some("v2 waits for dev-1 (at most 1 at a time)".to_owned());
        assert_eq!(
            messages(&groups_),
            [Some("no route to 10.0.0.0/8".to_owned()), turn.clone(), None]
        );
        let own = ["us-1", "us-2"].map(|name| (name.to_owned(), format!("{name} does not answer")));
        assert_eq!(
            messages(&of(&clusters, &own.into())),
            [None, turn, None],
            "each has its own"
        );
    }

    #[test]
    fn where_there_is_no_room_the_largest_groups_go_without_names() {
        let scattered = |place: usize| {
            format!(
                "cluster-{}-of-the-fleet",
                place.wrapping_mul(2_654_435_761) % 1_000_000_007
            )
        };
        let clusters: Vec<(String, Why)> = (0..3000)
            .map(|place| {
                let why = match place % 100 {
                    0 => unreachable(),
                    1..50 => Why::UpToDate,
                    _ => turn(),
                };
                (scattered(place), why)
            })
            .collect();
        let groups = of(&clusters, &BTreeMap::new());
        let short: Vec<_> = in_short(&groups)
            .into_iter()
            .map(|(reason, count, _, truncated)| (reason, count, truncated))
            .collect();
        assert_eq!(
            short,
            [
                ("Unreachable", 30, false),
                ("WaitingTurn", 1500, true),
                ("UpToDate", 1470, true)
            ]
        );
        assert!(serde_json::to_vec(&groups).unwrap().len() <= MAX_REASONS_SIZE);
        assert_eq!(ranges::unfold(&groups[0].clusters, 30).unwrap().len(), 30);
    }
}
