//! The times of the last downscales, and whether the next zone may follow.
//!
//! There are three sources, of which the newest time for each set counts: `status.lastDownscale` of the ZoneRollout,
//! the annotation `grafana.com/last-downscale` of the set, and the zone tracker's ConfigMap, which has a key for each
//! set with the value `{"lastDownscaled": RFC 3339}`. A time in the future counts as now. An invalid time is an error,
//! and blocks downscales.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::zonerollout::{OperationKind, ZoneRolloutStatus};
use serde_json::Value;

use super::preparation::Preparation;
use crate::{duration, model::Set};

/// The annotation with the time of a set's last downscale, RFC 3339.
pub const LAST_DOWNSCALE: &str = "grafana.com/last-downscale";
/// The label with the minimum time between downscales of two zones, as a Go duration.
pub const MIN_TIME: &str = "grafana.com/min-time-between-zones-downscale";

/// The key of a time in the zone tracker's ConfigMap.
const TRACKED: &str = "lastDownscaled";

/// The recorded times of a group, apart from annotations.
#[derive(Clone, Copy, Debug)]
pub struct Times<'a> {
    /// `status.lastDownscale` of the ZoneRollout.
    pub record: &'a BTreeMap<String, Time>,
    /// The zone tracker's ConfigMap.
    pub tracker: &'a Tracker,
}

/// The times in the zone tracker's ConfigMap by set, as unparsed text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracker(BTreeMap<String, String>);

impl Tracker {
    /// Parses the ConfigMap's data. As in rollout-operator, one entry that is not a JSON object invalidates all
    /// entries.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let entries = data.iter().map(|(set, text)| {
            let value: Value = serde_json::from_str(text)
                .map_err(|error| format!("the entry of {set} is not valid JSON: {error}"))?;
            let entry = value
                .as_object()
                .ok_or_else(|| format!("the entry of {set} is not a JSON object"))?;
            // Go matches keys case-insensitively.
            let tracked = entry.iter().find(|(key, _)| key.eq_ignore_ascii_case(TRACKED));
            match tracked.map(|(_, time)| time) {
                Some(Value::String(time)) => Ok((set.clone(), time.clone())),
                None | Some(Value::Null) => Ok((set.clone(), String::new())),
                Some(_) => Err(format!("{TRACKED} of {set} is no text")),
            }
        });
        entries.collect::<Result<_, String>>().map(Self)
    }

    /// The time of a set, as unparsed text.
    pub fn get(&self, set: &str) -> Option<&str> {
        self.0.get(set).map(String::as_str)
    }

    /// Adds these times.
    #[must_use]
    pub fn with(mut self, times: &BTreeMap<String, Time>) -> Self {
        let times = times.iter().map(|(set, time)| (set.clone(), rfc3339(time.0)));
        self.0.extend(times);
        self
    }

    /// The ConfigMap's data with these times added; entries of other sets are unchanged (R14).
    pub fn written(
        data: &BTreeMap<String, String>,
        times: &BTreeMap<String, Time>,
    ) -> BTreeMap<String, String> {
        let new = times.iter().map(|(set, time)| {
            let value = serde_json::json!({ TRACKED: rfc3339(time.0) });
            (set.clone(), value.to_string())
        });
        data.clone().into_iter().chain(new).collect()
    }
}

/// The source of an invalid time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The annotation of a set, or its label with the minimum time.
    Set,
    /// The zone tracker's ConfigMap.
    Tracker,
}

/// An invalid time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The source of the time.
    pub source: Source,
    /// The set that the time belongs to, and what is wrong with it.
    pub message: String,
}

/// A set whose last downscale is too recent for another zone to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooRecent {
    /// Name of the set.
    pub set: String,
    /// Time of the set's last downscale.
    pub at: Timestamp,
    /// How long other zones must wait after that, according to the set's label.
    pub wait: SignedDuration,
}

/// The status of a ZoneRollout as input for decisions. If there is none, each set starts as if it was scaled down now:
/// earlier downscales are unknown, so the next one has to wait.
pub fn begun(status: Option<&ZoneRolloutStatus>, sets: &[Set], now: Timestamp) -> ZoneRolloutStatus {
    status.cloned().unwrap_or_else(|| ZoneRolloutStatus {
        last_downscale: sets
            .iter()
            .map(|set| (set.name.clone(), Time(seconds(now))))
            .collect(),
        ..ZoneRolloutStatus::default()
    })
}

/// The time of a set's last downscale, the newest of all sources.
pub fn last_of(set: &Set, times: Times<'_>) -> Result<Option<Timestamp>, Unreadable> {
    let unreadable = |source, whose: String| {
        move |error: String| Unreadable {
            source,
            message: format!("can't parse {whose} of {}: {error}", set.name),
        }
    };
    let annotated = set
        .annotations
        .get(LAST_DOWNSCALE)
        .map(|text| parse_time(text))
        .transpose();
    let annotated = annotated.map_err(unreadable(Source::Set, format!("{LAST_DOWNSCALE} annotation")))?;
    let tracked = times.tracker.get(&set.name).map(parse_time).transpose();
    let tracked = tracked.map_err(unreadable(Source::Tracker, "last downscale time".to_owned()))?;
    let recorded = times.record.get(&set.name).map(|time| time.0);
    Ok([annotated, tracked, recorded].into_iter().flatten().max())
}

/// Where times are stored in addition to the ZoneRollout.
#[derive(Clone, Copy, Debug)]
pub enum Copied<'a> {
    /// In the annotation of each set.
    Annotation,
    /// In the zone tracker's ConfigMap.
    Tracker(&'a Tracker),
}

/// The times of `status` that must be copied: of sets whose pods are prepared, once the change was observed (GX6). An
/// invalid copy is not overwritten.
pub fn uncopied(sets: &[Set], status: &ZoneRolloutStatus, copied: Copied<'_>) -> BTreeMap<String, Time> {
    let is_under_way = |set: &Set| {
        let operation = status.operation.as_ref();
        operation.is_some_and(|operation| {
            operation.kind == OperationKind::Downscaling && operation.set_uid == set.uid
        })
    };
    let is_old = |set: &Set, time: &Time| {
        let copy = match copied {
            Copied::Annotation => set.annotations.get(LAST_DOWNSCALE).map(String::as_str),
            Copied::Tracker(tracker) => tracker.get(&set.name),
        };
        copy.is_none_or(|copy| parse_time(copy).is_ok_and(|copy| copy < seconds(time.0)))
    };
    let prepared = sets
        .iter()
        .filter(|set| Preparation::is_asked_for(set) && !is_under_way(set));
    prepared
        .filter_map(|set| {
            let time = status.last_downscale.get(&set.name)?;
            is_old(set, time).then(|| (set.name.clone(), time.clone()))
        })
        .collect()
}

/// The newest downscale time of all sets except one.
pub fn most_recent(sets: &[Set], except: &str, times: Times<'_>) -> Result<Option<Timestamp>, Unreadable> {
    let others = sets.iter().filter(|set| set.name != except);
    let newest = others
        .map(|set| last_of(set, times))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(newest.into_iter().flatten().max())
}

/// Whether a follower may be scaled down: strictly more than the time in its own label has passed since the newest
/// downscale of the other sets. The label is optional if no other set has the annotation.
pub fn min_time_elapsed(
    follower: &Set,
    sets: &[Set],
    times: Times<'_>,
    now: Timestamp,
) -> Result<bool, String> {
    let newest = most_recent(sets, &follower.name, times).map_err(|unreadable| unreadable.message)?;
    let Some(newest) = newest else {
        return Ok(true);
    };
    let Some(label) = follower.labels.get(MIN_TIME) else {
        let mut others = sets.iter().filter(|set| set.name != follower.name);
        return if others.any(|set| set.annotations.contains_key(LAST_DOWNSCALE)) {
            Err(format!("missing label {MIN_TIME} on follower"))
        } else {
            Ok(true)
        };
    };
    let wait = duration::go(label)
        .map_err(|error| format!("unable to parse label {MIN_TIME} value on follower: {error}"))?;
    Ok(now.duration_since(newest.min(now)) > wait)
}

/// The first other set whose own label blocks a downscale; exactly at the end of its time it no longer does.
pub fn too_recent(
    sets: &[Set],
    except: &str,
    times: Times<'_>,
    now: Timestamp,
) -> Result<Option<TooRecent>, Unreadable> {
    for set in sets.iter().filter(|set| set.name != except) {
        let (Some(at), Some(label)) = (last_of(set, times)?, set.labels.get(MIN_TIME)) else {
            continue;
        };
        let wait = duration::go(label).map_err(|error| Unreadable {
            source: source(set, times),
            message: format!("can't parse {MIN_TIME} label of {}: {error}", set.name),
        })?;
        if now.duration_since(at.min(now)) < wait {
            let set = set.name.clone();
            return Ok(Some(TooRecent { set, at, wait }));
        }
    }
    Ok(None)
}

/// The source that determines the error text for an invalid label: the one that contains the set's time.
fn source(set: &Set, times: Times<'_>) -> Source {
    if times.tracker.get(&set.name).is_some() {
        Source::Tracker
    } else {
        Source::Set
    }
}

/// RFC 3339 with whole seconds in UTC, as in the annotation and the ConfigMap.
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time truncated to whole seconds, so that it is unchanged when it is written and read back.
pub fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Parses RFC 3339 as Go does, which is stricter than most parsers: capital letters, seconds, and a time zone are
/// required.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let refuse = || format!("parsing time {text:?}: it is not RFC 3339, as 2006-01-02T15:04:05Z");
    let bytes = text.as_bytes();
    let fits = |at: usize, pattern: &str| {
        pattern.bytes().enumerate().all(|(offset, wanted)| {
            let found = bytes.get(at + offset);
            found.is_some_and(|found| {
                if wanted == b'0' {
                    found.is_ascii_digit()
                } else {
                    *found == wanted
                }
            })
        })
    };
    let date = "0000-00-00T00:00:00";
    let mut zone = date.len();
    if bytes.get(zone) == Some(&b'.') {
        zone += 1 + bytes
            .iter()
            .skip(zone + 1)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
    }
    let zones = ["Z", "+00:00", "-00:00"];
    let good = fits(0, date)
        && zones
            .iter()
            .any(|pattern| bytes.len() == zone + pattern.len() && fits(zone, pattern))
        && bytes.get(17) != Some(&b'6');
    if good {
        text.parse().map_err(|_| refuse())
    } else {
        Err(refuse())
    }
}
