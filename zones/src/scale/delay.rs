//! Delayed downscales: pods are asked to prepare, and are removed once they have been prepared for long enough. No
//! state is kept here: each pod reports since when it is prepared.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::pods::{Answered, Ask, Method, UrlPattern, fqdn};
use crate::model::Set;

/// The annotation with the delay, as a Prometheus duration.
pub const DELAY: &str = "grafana.com/rollout-delayed-downscale";
/// The annotation with the URL for requests to pods; the host is replaced by the pod's.
pub const URL: &str = "grafana.com/rollout-prepare-delayed-downscale-url";

/// Units of Prometheus' durations, the largest first, with their milliseconds.
const UNITS: [(&str, u64); 7] = [
    ("y", 31_536_000_000),
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
/// The longest duration that Go's type supports, in milliseconds.
const LONGEST: u64 = (i64::MAX / 1_000_000).unsigned_abs();

/// How pods of a set are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// How long a pod must have been prepared; 0 means that pods are not asked.
    pub delay: SignedDuration,
    /// URL of the requests to pods.
    pub url: UrlPattern,
}

/// Parses the two annotations; one without the other counts as absent. An error stops scaling in both directions.
pub fn parse_delay(annotations: &BTreeMap<String, String>) -> Result<Option<Delay>, String> {
    let annotation = |key: &str| annotations.get(key).filter(|text| !text.is_empty());
    let (Some(delay), Some(url)) = (annotation(DELAY), annotation(URL)) else {
        return Ok(None);
    };
    let delay = prometheus(delay)
        .map_err(|error| format!("failed to parse {DELAY} annotation value as duration: {error}"))?;
    let url = UrlPattern::parse(url)
        .map_err(|error| format!("failed to parse {URL} annotation value as URL: {error}"))?;
    Ok(Some(Delay { delay, url }))
}

/// Parses a Prometheus duration; errors have the texts of Prometheus.
fn prometheus(text: &str) -> Result<SignedDuration, String> {
    if text == "0" {
        return Ok(SignedDuration::ZERO);
    }
    let invalid = || format!("not a valid duration string: {text:?}");
    let out_of_range = || "duration out of range".to_owned();
    let mut units = UNITS.iter();
    let mut milliseconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| !c.is_ascii_digit());
        let number = number.parse::<u64>().map_err(|_| invalid())?;
        if unit.is_empty() {
            return Err(invalid());
        }
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(format!("unknown unit {unit:?} in duration {text:?}"));
        }
        let (_, scale) = units.find(|(name, _)| *name == unit).ok_or_else(invalid)?;
        let part = number.checked_mul(*scale).ok_or_else(out_of_range)?;
        milliseconds = milliseconds.checked_add(part).ok_or_else(out_of_range)?;
        rest = after;
    }
    let fits = i64::try_from(milliseconds)
        .ok()
        .filter(|_| milliseconds <= LONGEST);
    fits.map(SignedDuration::from_millis).ok_or_else(out_of_range)
}

fn split(text: &str, of: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !of(c)).unwrap_or(text.len()))
}

/// The requests to the pods of a range of replicas, counted from the first pod of the set.
pub fn asks(
    set: &Set,
    replicas: std::ops::Range<u32>,
    method: Method,
    url: &UrlPattern,
    (namespace, cluster_domain): (&str, &str),
) -> Vec<Ask> {
    let ask = |replica: u32| {
        let ordinal = u64::from(set.start) + u64::from(replica);
        let host = fqdn(&set.name, ordinal, &set.service_name, namespace, cluster_domain);
        Ask {
            method,
            pod: format!("{}-{ordinal}", set.name),
            url: url.at(&host),
        }
    };
    replicas.map(ask).collect()
}

/// Since when a pod is prepared: a 2xx answer with `{"timestamp": Unix seconds}`, not 0.
fn prepared_since(answered: &Answered) -> Result<Timestamp, String> {
    let answer = answered.as_ref().map_err(Clone::clone)?;
    if !answer.is_success() {
        return Err(format!("it answered {}", answer.status));
    }
    let body: Value = serde_json::from_str(&answer.body)
        .map_err(|error| format!("its answer is not valid JSON: {error}"))?;
    // Go matches keys case-insensitively.
    let mut entries = body.as_object().into_iter().flatten();
    let timestamp = entries.find(|(key, _)| key.eq_ignore_ascii_case("timestamp"));
    let seconds = timestamp
        .and_then(|(_, seconds)| seconds.as_i64())
        .filter(|seconds| *seconds != 0);
    let seconds = seconds.ok_or("its answer has no timestamp")?;
    Timestamp::from_second(seconds).map_err(|error| format!("its timestamp is out of range: {error}"))
}

/// The number of replicas to which a set may be scaled down now, given the answers of the pods above `wanted`: the
/// longest run from the top that has been prepared for long enough. Pods that never started need no preparation (R12)
/// and are not in `answers`. An error stops the downscale for now.
pub fn reached(
    present: u32,
    wanted: u32,
    delay: SignedDuration,
    answers: &BTreeMap<u32, &Answered>,
    now: Timestamp,
) -> Result<u32, String> {
    let mut since = BTreeMap::new();
    for (replica, answered) in answers {
        let prepared = prepared_since(answered)
            .map_err(|error| format!("failed prepare pods for delayed downscale: pod {replica}: {error}"))?;
        since.insert(*replica, prepared);
    }
    let may_go = |replica: &u32| {
        since
            .get(replica)
            .is_none_or(|since| now.duration_since(*since) >= delay)
    };
    let going = (wanted..present).rev().take_while(may_go).count();
    match u32::try_from(going) {
        Ok(going) if going > 0 => Ok(present.saturating_sub(going)),
        _ => Err(format!(
            "configured downscale delay {} has not been reached for any pods at the end of statefulset replicas range",
            crate::duration::go_text(delay)
        )),
    }
}
