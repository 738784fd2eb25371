//! Tables of the rollout, one decision each: the results of the original's helper functions are derived from a pass of
//! the NodeModule.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use muster_api::{
    node::{assemblage::NodePhase, content::NodeContent, render},
    revision::Verdict,
    selector::Matcher,
};
use muster_rollout::{Decision, Millis};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fleet::Fleet;
use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] = &[
    product("config-timeout.json", PASS, config_timeout),
    product(
        "create-revision.json",
        "controllers::node::revisions::name",
        create_revision,
    )
    .wording(WORDS)
    .safer_alone(),
    product("first-valid-revision.json", PASS, first_valid_revision),
    product("invalidate-revision.json", PASS, invalidate_revision)
        .wording(WORDS)
        .safer_alone(),
    product("list-nodes.json", "controllers::node::reading::read", list_nodes).safer_alone(),
    product("match-selector.json", "api::node::render::parts", match_selector)
        .wording(WORDS)
        .safer_alone(),
    product("outdated-nodes.json", PASS, outdated_nodes),
    product("redundant-configs.json", PASS, redundant_configs).safer_alone(),
    product(
        "revision-cleanup.json",
        "controllers::node::revisions::surplus",
        revision_cleanup,
    )
    .unordered(&["deleted"])
    .safer_alone(),
    product("revision-counters.json", PASS, revision_counters)
        .wording(WORDS)
        .safer_alone(),
    product("should-skip.json", PASS, should_skip).wording(WORDS),
];

const PASS: &str = "controllers::node::pass::next";
const WORDS: &[&str] = &["error", "failedMessage", "message", "selectorError"];
/// The current time of tables without one.
const NOW: &str = "2000-01-01T01:00:00Z";

/// A stored revision in the form of the tables.
pub(super) struct Stored<'a> {
    pub name: &'a str,
    pub created: Timestamp,
    pub invalid: bool,
    status: &'a Value,
}

impl<'a> Stored<'a> {
    pub(super) fn of(object: &'a Value) -> anyhow::Result<Self> {
        let created = object["metadata"]["creationTimestamp"].as_str().unwrap_or(NOW);
        Ok(Self {
            name: object["spec"]["revision"]
                .as_str()
                .context("a revision without a hash")?,
            created: created.parse()?,
            invalid: object["status"]["isInvalid"] == true,
            status: &object["status"],
        })
    }

    pub(super) fn all(objects: &'a [Value]) -> anyhow::Result<Vec<Self>> {
        objects.iter().map(Self::of).collect()
    }

    /// Whether every node has it, and there is at least one.
    fn is_done(&self) -> bool {
        let of = |key: &str| self.status[key].as_i64().unwrap_or_default();
        of("total") > 0 && of("ready") >= of("total")
    }
}

/// Stores revisions. One that is listed as bad once is bad, however often it is listed.
fn store_all(
    fleet: &mut Fleet,
    stored: &[Stored<'_>],
    verdict: impl Fn(&Stored<'_>) -> Option<Verdict>,
) -> anyhow::Result<()> {
    let bad: BTreeSet<&str> = stored
        .iter()
        .filter(|one| one.invalid)
        .map(|one| one.name)
        .collect();
    for one in stored.iter().rev() {
        let verdict = if bad.contains(one.name) {
            Some(Verdict::Bad)
        } else {
            verdict(one)
        };
        fleet.store(one.name, one.created, verdict)?;
    }
    Ok(())
}

/// A duration as a deadline of muster: the original's is exceeded strictly after its last instant, muster's at it.
fn deadline(seconds: f64) -> anyhow::Result<Value> {
    let span = SignedDuration::try_from_secs_f64(seconds)? + SignedDuration::from_millis(1);
    Ok(json!(format!("{}ms", span.as_millis())))
}

/// In whole seconds, as in the tables.
fn instant(at: Millis) -> anyhow::Result<String> {
    Ok(Timestamp::from_second(i64::try_from(at.0 / 1_000)?)?.to_string())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TimeoutInput {
    now: Timestamp,
    last_update: Option<Timestamp>,
    timeout_seconds: f64,
}

/// A row was written at `lastUpdate` and is not acknowledged: this deadline has no minimum.
fn config_timeout(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: TimeoutInput = input.parse()?;
    let Some(begun) = input.last_update.filter(|begun| *begun <= input.now) else {
        return Ok(json!({"reached": false}));
    };
    let mut fleet = Fleet::new(begun);
    fleet.rollout["deadlines"] = json!({"pickup": deadline(input.timeout_seconds)?});
    fleet.join_named("node")?;
    fleet.call("revision", Fleet::plain("revision"));
    fleet.aim(Some("revision"))?;
    fleet.pass()?;
    let decision = fleet.until(input.now)?;
    Ok(json!({"reached": !decision.memory.bad.is_empty()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevisionsInput {
    revisions: Vec<Value>,
}

/// What a new node gets. The NodeModule's target is the newest revision.
fn first_valid_revision(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: RevisionsInput = input.parse()?;
    let stored = Stored::all(&input.revisions)?;
    let mut fleet = Fleet::new(NOW.parse()?);
    fleet.rollout["onJoin"] = json!("LastGood");
    store_all(&mut fleet, &stored, |_| Some(Verdict::Good))?;
    fleet.join_named("node")?;
    fleet.aim(stored.first().map(|newest| newest.name))?;
    fleet.pass()?;
    Ok(json!({"revision": fleet.assigned("node")}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CandidateInput {
    revisions: Vec<Value>,
    candidate: Value,
}

/// A node has the current revision, and the target of the NodeModule is the candidate: it is skipped if the node does
/// not get it.
fn should_skip(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: CandidateInput = input.parse()?;
    let stored = Stored::all(&input.revisions)?;
    let candidate = Stored::of(&input.candidate)?;
    let mut fleet = Fleet::new(candidate.created);
    store_all(&mut fleet, &stored, |_| Some(Verdict::Good))?;
    fleet.join_named("node")?;
    if let Some(valid) = stored.iter().find(|one| !one.invalid) {
        fleet.confirm("node", valid.name)?;
    }
    fleet.call(candidate.name, Fleet::plain(candidate.name));
    fleet.aim(Some(candidate.name))?;
    let (_, written) = fleet.pass()?;
    let skip = written.is_empty();
    let status = fleet.module().status.as_ref().context("no status")?;
    let ready = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Ready");
    let message = ready.map(|ready| ready.message.as_str()).filter(|_| skip);
    Ok(json!({"skip": skip, "message": message}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutdatedInput {
    nodes: Vec<String>,
    configs: Vec<Value>,
    revision: Option<Value>,
}

/// The name, revision and status of a node's config.
fn config(object: &Value) -> anyhow::Result<(&str, &str, &Value)> {
    let name = object["metadata"]["name"]
        .as_str()
        .context("a config without a name")?;
    let revision = object["spec"]["revision"]
        .as_str()
        .context("a config without a revision")?;
    Ok((name, revision, &object["status"]))
}

/// The nodes that a pass without limits writes.
fn outdated_nodes(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: OutdatedInput = input.parse()?;
    let target = input.revision.as_ref().map(Stored::of).transpose()?;
    let mut fleet = Fleet::unlimited(NOW.parse()?);
    for node in &input.nodes {
        fleet.join_named(node)?;
    }
    for object in &input.configs {
        let (node, revision, status) = config(object)?;
        fleet.carry(node, revision)?;
        fleet.report(node, status)?;
    }
    if let Some(target) = &target {
        fleet.store(target.name, target.created, None)?;
    }
    fleet.aim(target.map(|target| target.name))?;
    let (_, written) = fleet.pass()?;
    Ok(json!({"nodes": written}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesInput {
    nodes: Vec<Value>,
}

/// All nodes have an old revision: eligible are those that get the new one in a pass without limits.
fn list_nodes(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: NodesInput = input.parse()?;
    let mut fleet = Fleet::unlimited(NOW.parse()?);
    for node in &input.nodes {
        fleet.join(node)?;
        let name = node["metadata"]["name"]
            .as_str()
            .context("a Node without a name")?;
        fleet.confirm(name, "old")?;
    }
    fleet.call("new", Fleet::plain("new"));
    fleet.aim(Some("new"))?;
    let (_, written) = fleet.pass()?;
    Ok(json!({"eligible": written}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RedundantInput {
    configs: Vec<Value>,
    #[serde(default)]
    already_gone: Vec<String>,
}

/// References to deleted owners are dropped: if others are left, but none to a Node, the Node is known to be gone.
fn redundant_configs(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: RedundantInput = input.parse()?;
    let mut fleet = Fleet::unlimited(NOW.parse()?);
    for object in &input.configs {
        let (node, revision, status) = config(object)?;
        if input.already_gone.iter().any(|gone| gone == node) {
            continue;
        }
        let owners = object["metadata"]["ownerReferences"].as_array();
        let gone = owners.is_some_and(|owners| owners.iter().all(|owner| owner["kind"] != "Node"));
        if !gone {
            fleet.join_named(node)?;
        }
        fleet.carry(node, revision)?;
        fleet.report(node, status)?;
        fleet.aim(Some(revision))?;
    }
    if !fleet.is_applied() {
        fleet.aim(None)?;
    }
    let before: BTreeSet<String> = fleet.world.assemblages.keys().cloned().collect();
    fleet.pass()?;
    let (observation, _) = fleet.decide();
    let counted = observation.units.iter().filter(|unit| unit.selected());
    let kept: Vec<&str> = counted.map(|unit| unit.id.as_str()).collect();
    let deleted = before
        .iter()
        .filter(|node| !fleet.world.assemblages.contains_key(*node));
    Ok(json!({"kept": kept, "deleted": deleted.collect::<Vec<_>>(), "error": null}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CleanupInput {
    revisions: Vec<Value>,
    configs: Vec<Value>,
}

/// The target of the NodeModule is the newest revision, and no history is kept.
fn revision_cleanup(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: CleanupInput = input.parse()?;
    let mut stored = Stored::all(&input.revisions)?;
    stored.sort_by_key(|one| std::cmp::Reverse(one.created));
    let newest = stored.first().map(|newest| newest.name);
    let mut fleet = Fleet::new(NOW.parse()?);
    store_all(&mut fleet, &stored, |one| {
        (Some(one.name) != newest || one.is_done()).then_some(Verdict::Good)
    })?;
    for object in &input.configs {
        let (node, revision, status) = config(object)?;
        fleet.join_named(node)?;
        fleet.carry(node, revision)?;
        fleet.report(node, status)?;
    }
    fleet.aim(newest)?;
    fleet.one_pass(|_, _| true)?;
    let mut deleted = Vec::new();
    for one in &stored {
        if fleet.stored(one.name)?.is_none() {
            deleted.push(one.name);
        }
    }
    Ok(json!({"deleted": deleted, "error": null}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateInput {
    now: Timestamp,
    existing: Vec<Value>,
    candidate: Value,
}

/// A pass stores the candidate. Revisions of muster have no counters: those of the original are unchanged.
fn create_revision(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: CreateInput = input.parse()?;
    let existing = Stored::all(&input.existing)?;
    let candidate = Stored::of(&input.candidate)?;
    let mut fleet = Fleet::new(input.now);
    store_all(&mut fleet, &existing, |_| None)?;
    fleet.join_named("node")?;
    fleet.call(candidate.name, Fleet::plain(candidate.name));
    fleet.aim(Some(candidate.name))?;
    let before = fleet.world.revisions.len();
    let (observation, plan) = fleet.decide();
    let made = fleet.record(&observation, &plan);
    let replaced = made && fleet.world.revisions.len() == before;
    let stored = fleet.stored(candidate.name)?.context("it is not on record")?;
    let created = stored.metadata.creation_timestamp.as_ref();
    let counters = existing.iter().find(|one| one.name == candidate.name);
    let counters = counters.unwrap_or(&candidate).status;
    Ok(json!({
        "operations": if made { vec!["create"] } else { vec![] },
        "revision": candidate.name,
        "creationTimestamp": created.map(|created| created.0.to_string()),
        "status": counters,
        "error": replaced.then_some("another revision has its name"),
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InvalidateInput {
    revision: Value,
    failed_node: String,
    failed_message: String,
    failed_at: Option<Timestamp>,
}

/// The nodes that failed on a revision report this, one after the other; the recorded evidence is the failure that
/// marked it as bad.
fn invalidate_revision(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: InvalidateInput = input.parse()?;
    let revision = Stored::of(&input.revision)?;
    let before = revision.status;
    let first = before["failedNode"].as_str().filter(|_| revision.invalid);
    let mut fails = Vec::new();
    if let Some(node) = first {
        let at = before["failedAt"].as_str().unwrap_or(NOW).parse()?;
        fails.push((node, before["failedMessage"].as_str().unwrap_or_default(), at));
    }
    let at = input.failed_at.map_or_else(|| NOW.parse(), Ok)?;
    fails.push((&input.failed_node, &input.failed_message, at));
    let mut fleet = Fleet::new(fails[0].2);
    fleet.rollout["maxUnreadyNodes"] = json!("100%");
    for (node, ..) in &fails {
        fleet.join_named(node)?;
    }
    fleet.store(revision.name, revision.created, None)?;
    fleet.aim(Some(revision.name))?;
    fleet.pass()?;
    let mut decision = None;
    for (node, message, at) in fails {
        fleet.world.now = at;
        let status =
            json!({"configStatus": "invalid", "lastAppliedRevision": revision.name, "errorMessage": message});
        fleet.report(node, &status)?;
        decision = Some(fleet.pass()?.0);
    }
    let decision = decision.context("nothing failed")?;
    let condemned = fleet.condemned(&decision);
    let evidence = condemned.get(revision.name).context("it is not condemned")?;
    let mut status = before.clone();
    status["isInvalid"] = true.into();
    status["failedNode"] = evidence.unit.as_str().into();
    status["failedMessage"] = json!(*evidence.message);
    if input.failed_message.is_empty() {
        // The original omits an empty text; muster reports that there was none.
        status["failedMessage"] = Value::Null;
    }
    status["failedAt"] = instant(evidence.at)?.into();
    Ok(json!({"status": status, "error": null}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SelectorInput {
    labels: BTreeMap<String, String>,
    selector: Option<LabelSelector>,
}

/// An input of the original corresponds to a part of a NodeModule.
fn match_selector(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: SelectorInput = input.parse()?;
    let content: NodeContent =
        serde_json::from_value(json!({"parts": [{"selector": input.selector, "files": []}]}))?;
    let selector = input.selector.as_ref();
    Ok(
        match selector.map(|selector| Matcher::new(Some(selector))).transpose() {
            Ok(_) => {
                json!({"matches": !render::matching_parts(&content, &input.labels)?.is_empty(), "selectorError": null})
            }
            Err(error) => json!({"matches": false, "selectorError": error.to_string()}),
        },
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CountersInput {
    now: Timestamp,
    config_timeout_seconds: f64,
    preconfig_timeout_seconds: f64,
    revision: Value,
    configs: Vec<Value>,
    #[serde(default)]
    assigned_at: BTreeMap<String, Timestamp>,
    #[serde(default)]
    nodes: BTreeMap<String, Value>,
}

/// What happened to a node, in this order at the same instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// It joined, and got its row.
    Assigned,
    /// Its agent reported the status in the table, and the controller read it.
    Reported,
}

/// Simulates the nodes up to now. The original derives times from the last report; muster remembers when it wrote the
/// row, and when it read the report.
fn revision_counters(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: CountersInput = input.parse()?;
    let revision = Stored::of(&input.revision)?;
    let mut events = Vec::new();
    for object in &input.configs {
        let (node, carried, status) = config(object)?;
        let reported: Option<Timestamp> = status["lastUpdate"].as_str().map(str::parse).transpose()?;
        let reported = reported.filter(|at| *at <= input.now);
        let assigned = input
            .assigned_at
            .get(node)
            .copied()
            .or(reported)
            .unwrap_or(input.now);
        events.push((assigned, Event::Assigned, node, carried, status));
        events.push((
            reported.unwrap_or(assigned).max(assigned),
            Event::Reported,
            node,
            carried,
            status,
        ));
    }
    events.sort_by_key(|(at, event, node, ..)| (*at, *event, *node));
    let mut fleet = Fleet::unlimited(events.first().map_or(input.now, |event| event.0));
    fleet.rollout["deadlines"] = json!({
        "pickup": deadline(input.preconfig_timeout_seconds)?,
        // Shorter deadlines are rejected: the agent needs this time to confirm, or to restore and report.
        "progress": deadline(input.config_timeout_seconds.max(2.0))?,
    });
    fleet.store(revision.name, revision.created, None)?;
    fleet.aim(Some(revision.name))?;
    for (at, event, node, carried, status) in events {
        fleet.until(at)?;
        match event {
            Event::Assigned => {
                fleet.join_named(node)?;
                if carried != revision.name {
                    // It has another revision, and its turn has not come.
                    fleet.confirm(node, carried)?;
                    let facts = fleet.world.nodes.get_mut(node).context("it just joined")?;
                    facts
                        .annotations
                        .insert("fleet.muster.dev/hold".to_owned(), "true".to_owned());
                }
            }
            Event::Reported => fleet.report(node, status)?,
        }
        fleet.pass()?;
        if event == Event::Reported
            && let Some(object) = input.nodes.get(node)
        {
            fleet.set_ready(
                node,
                muster_controllers::node::facts::NodeFacts::of(&serde_json::from_value(object.clone())?)
                    .ready,
            );
        }
    }
    let decision = fleet.until(input.now)?;
    counters(&fleet, &decision)
}

fn counters(fleet: &Fleet, decision: &Decision) -> anyhow::Result<Value> {
    let status = fleet.module().status.as_ref().context("no status")?;
    let in_flight = fleet.changing();
    let ongoing = in_flight
        .iter()
        .filter(|node| fleet.phase(node) != Some(NodePhase::Failed));
    let failed = &decision.memory.marks;
    let first = failed.first_key_value();
    let message = first.and_then(|(node, _)| {
        let mut attention = status.attention.iter();
        attention
            .find(|entry| entry.node == node.as_str())
            .map(|entry| entry.message.as_str())
    });
    if first.is_some() && message.is_none() {
        bail!("a node failed, and nothing says so");
    }
    Ok(json!({
        "ready": decision.summary.updated,
        "ongoing": ongoing.count(),
        "invalid": failed.len(),
        "failedNode": first.map_or("", |(node, _)| node.as_str()),
        "failedMessage": message.unwrap_or_default(),
        "failedAt": first.map(|(_, at)| instant(*at)).transpose()?,
    }))
}
