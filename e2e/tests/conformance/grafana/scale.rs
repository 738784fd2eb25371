//! Tables of scaling.

use std::collections::BTreeMap;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_zones::{
    model::Set,
    scale::{
        delay, follower,
        pods::{Method, UrlPattern, fqdn},
        times::{self, Times, Tracker},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::roll::pass;
use crate::registry::{Input, Table, product};

/// Keys that depend on a patch that is safer.
const FOLLOWS: &[(&str, &[&str])] = &[("patches", &["httpRequests"])];
/// Requests run in parallel.
const REQUESTS: &[&str] = &["httpRequests"];
/// Errors of a pass are logged; parts of them are messages of Go.
const ERROR: &[&str] = &["error"];

pub(super) const TABLES: &[Table] = &[
    product("downscale-delay.json", "decide::decide", pass)
        .unordered(REQUESTS)
        .follows(FOLLOWS),
    product("downscale-delay-probes.json", "decide::decide", pass)
        .unordered(REQUESTS)
        .follows(FOLLOWS),
    product("desired-replicas.json", "scale::follower::desired", desired).wording(ERROR),
    product("leader.json", "scale::follower::leader", leader),
    product("force-replicas.json", "scale::follower::forced", forced),
    product(
        "most-recent-downscale.json",
        "scale::times::most_recent",
        most_recent,
    )
    .wording(ERROR),
    product(
        "min-time-elapsed.json",
        "scale::times::min_time_elapsed",
        min_time_elapsed,
    )
    .wording(ERROR),
    product("delay-annotations.json", "scale::delay::parse", annotations).wording(ERROR),
    product("delay-endpoints.json", "scale::delay::asks", endpoints),
    product("pod-fqdn.json", "scale::pods::fqdn", pod_fqdn),
    product("zone-tracker.json", "scale::times::Tracker", tracker),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sets {
    all: Vec<Value>,
    #[serde(alias = "follower")]
    set: String,
}

impl Sets {
    fn read(&self) -> anyhow::Result<(Vec<Set>, Set)> {
        let sets: Vec<Set> = self.all.iter().map(Set::from_value).collect::<Result<_, _>>()?;
        let set = sets
            .iter()
            .find(|set| set.name == self.set)
            .context("the set is one of them")?
            .clone();
        Ok((sets, set))
    }
}

/// The only record are annotations.
fn with_annotations<T>(evaluate: impl FnOnce(Times<'_>) -> T) -> T {
    evaluate(Times {
        record: &BTreeMap::new(),
        tracker: &Tracker::default(),
    })
}

fn now(input: &Input<'_>) -> anyhow::Result<Timestamp> {
    Ok(input.now.context("the file has an instant")?.parse()?)
}

fn desired(input: &Input<'_>) -> anyhow::Result<Value> {
    let (sets, set) = input.parse::<Sets>()?.read()?;
    let now = now(input)?;
    Ok(
        match with_annotations(|times| follower::desired(&set, &sets, times, now)) {
            Ok(replicas) => json!({ "replicas": replicas }),
            Err(error) => json!({"error": error, "replicas": set.desired()}),
        },
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Follower {
    all: Vec<String>,
    leader: Option<String>,
    set: String,
}

fn leader(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: Follower = input.parse()?;
    let annotations = input.leader.map(|leader| (follower::LEADER.to_owned(), leader));
    let set = |name: &String| Set {
        name: name.clone(),
        ..Set::default()
    };
    let follower_set = Set {
        annotations: annotations.into_iter().collect(),
        ..set(&input.set)
    };
    let all: Vec<Set> = input.all.iter().map(set).collect();
    Ok(match follower::leader(&follower_set, &all) {
        Ok(leader) => json!({"leader": leader.map(|leader| &leader.name)}),
        Err(error) => json!({ "error": error }),
    })
}

fn forced(input: &Input<'_>) -> anyhow::Result<Value> {
    let value: Option<String> = input.parse()?;
    let annotations = value.map(|value| (follower::FORCE_REPLICAS.to_owned(), value));
    Ok(json!(follower::forced(&annotations.into_iter().collect())))
}

fn most_recent(input: &Input<'_>) -> anyhow::Result<Value> {
    let (sets, set) = input.parse::<Sets>()?.read()?;
    Ok(
        match with_annotations(|times| times::most_recent(&sets, &set.name, times)) {
            Ok(at) => json!({"at": at.map(times::rfc3339)}),
            Err(unreadable) => json!({"error": unreadable.message}),
        },
    )
}

fn min_time_elapsed(input: &Input<'_>) -> anyhow::Result<Value> {
    let (sets, set) = input.parse::<Sets>()?.read()?;
    let now = now(input)?;
    Ok(
        match with_annotations(|times| times::min_time_elapsed(&set, &sets, times, now)) {
            Ok(elapsed) => json!({ "elapsed": elapsed }),
            Err(error) => json!({ "error": error }),
        },
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    delay: String,
    url: String,
}

fn annotations(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: Annotations = input.parse()?;
    let annotations = [
        (delay::DELAY.to_owned(), input.delay),
        (delay::URL.to_owned(), input.url),
    ];
    Ok(match delay::parse_delay(&annotations.into()) {
        Ok(None) => json!({"seconds": null, "url": null}),
        Ok(Some(delay)) => json!({"seconds": delay.delay.as_secs_f64(), "url": delay.url.text}),
        Err(error) => json!({ "error": error }),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Endpoints {
    cluster_domain: String,
    from: u32,
    namespace: String,
    service: String,
    set: String,
    to: u32,
    url: String,
}

fn endpoints(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: Endpoints = input.parse()?;
    let set = Set {
        name: input.set,
        service_name: input.service,
        ..Set::default()
    };
    let url = UrlPattern::parse(&input.url).map_err(anyhow::Error::msg)?;
    let names = (input.namespace.as_str(), input.cluster_domain.as_str());
    let asks = delay::asks(&set, input.from..input.to, Method::Post, &url, names);
    Ok(asks
        .into_iter()
        .map(|ask| json!({"pod": ask.pod, "url": ask.url}))
        .collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Named {
    cluster_domain: String,
    namespace: String,
    ordinal: u64,
    service: String,
    set: String,
}

fn pod_fqdn(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: Named = input.parse()?;
    Ok(fqdn(
        &input.set,
        input.ordinal,
        &input.service,
        &input.namespace,
        &input.cluster_domain,
    )
    .into())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sequence {
    calls: Vec<String>,
    config_map: Option<BTreeMap<String, String>>,
    sets: Vec<Zone>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Zone {
    name: String,
    min_time: Option<String>,
}

/// A missing ConfigMap corresponds to a record that was lost.
fn tracker(input: &Input<'_>) -> anyhow::Result<Value> {
    let now = now(input)?;
    let calls: Sequence = input.parse()?;
    let set = |zone: Zone| Set {
        name: zone.name,
        labels: zone
            .min_time
            .map(|time| (times::MIN_TIME.to_owned(), time))
            .into_iter()
            .collect(),
        ..Set::default()
    };
    let sets: Vec<Set> = calls.sets.into_iter().map(set).collect();
    let mut data = calls.config_map;
    let mut results = Vec::new();
    for call in &calls.calls {
        let (verb, zone) = call.split_once(' ').unwrap_or((call, ""));
        let entries = data.clone().unwrap_or_default();
        let tracker = Tracker::parse(&entries).map_err(anyhow::Error::msg)?;
        results.push(match verb {
            "load" => {
                let begun = || Tracker::written(&entries, &times::begun(None, &sets, now).last_downscale);
                data = Some(data.unwrap_or_else(begun));
                Value::Null
            }
            "set" => {
                data = Some(Tracker::written(&entries, &[(zone.to_owned(), Time(now))].into()));
                Value::Null
            }
            "last" => json!(tracker.get(zone)),
            "tooRecent" => {
                let record = BTreeMap::new();
                let times = Times {
                    record: &record,
                    tracker: &tracker,
                };
                let found = times::too_recent(&sets, zone, times, now);
                let found = found.map_err(|unreadable| anyhow::anyhow!(unreadable.message))?;
                json!(found.map(|found| json!({"set": found.set, "waitSeconds": found.wait.as_secs()})))
            }
            _ => anyhow::bail!("unknown call {call:?}"),
        });
    }
    Ok(json!({"results": results, "configMap": data}))
}
