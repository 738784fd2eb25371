//! Tables of the command line, the installation, and metrics.

use std::collections::BTreeMap;

use muster_zones::{authority, flags, metrics};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::registry::{Input, Table, not_applicable, product};

pub(super) const TABLES: &[Table] = &[
    not_applicable(
        "alerts.json",
        "rules that people run already, not muster's: muster_zones::metrics has the metrics and labels that they name",
    ),
    product(
        "ca-injection.json",
        "muster_zones::authority::injected",
        ca_injection,
    ),
    product("flags.json", "muster_zones::flags::FLAGS", flag),
    product(
        "flags-valid.json",
        "muster_zones::flags::Settings::new",
        flags_valid,
    ),
    not_applicable(
        "manifests.json",
        "the original's manifests stay in use but for image, command and Role rules (docs/zones.md)",
    ),
    product("metrics.json", "muster_zones::metrics::METRICS", metric),
    product(
        "metrics-removal.json",
        "muster_zones::metrics::Groups::passed",
        metrics_removal,
    ),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaInput {
    labels: BTreeMap<String, String>,
    namespace: String,
    ca: String,
    bundles: Option<Vec<String>>,
}

fn ca_injection(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: CaInput = input.parse()?;
    let bundles: Vec<Vec<u8>> = input
        .bundles
        .unwrap_or_default()
        .into_iter()
        .map(String::into_bytes)
        .collect();
    let injected = authority::injected(&input.labels, &input.namespace, input.ca.as_bytes(), &bundles);
    let texts = |bundles: &[Vec<u8>]| -> Vec<String> {
        bundles
            .iter()
            .map(|bundle| String::from_utf8_lossy(bundle).into_owned())
            .collect()
    };
    Ok(json!({
        "patched": injected.is_some(),
        "bundles": texts(injected.as_deref().unwrap_or(&bundles)),
    }))
}

fn flag(input: &Input<'_>) -> anyhow::Result<Value> {
    let flag = flags::find_flag(&input.parse::<String>()?);
    Ok(flag.map_or(
        Value::Null,
        |flag| json!({"default": flag.default, "type": flag.kind.as_str(), "effective": flag.effective}),
    ))
}

fn flags_valid(input: &Input<'_>) -> anyhow::Result<Value> {
    let arguments: Vec<String> = input.parse()?;
    let settings = flags::parse_flags(&arguments).and_then(|given| flags::Settings::new(&given));
    Ok(json!({"error": settings.err().map(|error| error.to_string())}))
}

fn metric(input: &Input<'_>) -> anyhow::Result<Value> {
    let metric = metrics::find_metric(&input.parse::<String>()?);
    Ok(metric.map_or(
        Value::Null,
        |metric| json!({"type": metric.kind.as_str(), "labels": metric.labels}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemovalInput {
    objects: Vec<Value>,
    steps: Vec<RemovalStep>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RemovalStep {
    Reconcile(String),
    Delete(Vec<String>),
}

fn metrics_removal(input: &Input<'_>) -> anyhow::Result<Value> {
    let mut input: RemovalInput = input.parse()?;
    let mut series = metrics::Groups::default();
    let mut answers = Vec::new();
    for step in &input.steps {
        match step {
            RemovalStep::Delete(names) => input.objects.retain(|object| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                object["kind"] != "StatefulSet" || names.iter().all(|deleted| deleted != name)
            }),
            RemovalStep::Reconcile(word) => {
                anyhow::ensure!(word == "reconcile", "an unknown step: {word}");
                let sets = input
                    .objects
                    .iter()
                    .filter(|object| object["kind"] == "StatefulSet");
                let groups = sets.filter_map(|set| set["metadata"]["labels"]["rollout-group"].as_str());
                // No pass of the table fails: zones without all their pods are waited for.
                let passed = groups.map(|group| (group.to_owned(), true)).collect();
                series.passed(&passed, 1);
                answers.push(printed(&series));
            }
        }
    }
    Ok(answers.into())
}

/// The series by metric and group.
fn printed(series: &metrics::Groups) -> Value {
    let of = |value: fn(&metrics::Group) -> Value| -> Map<String, Value> {
        series
            .iter()
            .map(|(name, group)| (name.to_owned(), value(group)))
            .collect()
    };
    json!({
        metrics::RECONCILES: of(|group| group.reconciles.into()),
        metrics::FAILED: of(|group| group.failed.into()),
        metrics::DURATION: of(|group| json!({"count": group.durations})),
        metrics::LAST_SUCCESS: of(|group| if group.last_success > 0 { json!("a time") } else { json!(0) }),
    })
}
