//! Tables of the replica webhooks.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use muster_zones::{
    admit::{
        Fact, Read, ReadError, Request, Response, Review, Step, Webhook, checks,
        no_downscale::NoDownscale,
        prepare::Prepare,
        scaled::{Scaled, replicas_change},
        serve,
    },
    model::{Group, Pod, Set},
    scale::{
        Settings,
        pods::{AT_ONCE, Answer, Answered, Ask, Method, fqdn, prepare_url},
        preparation::{PATH, PORT, PREPARE},
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    roll::{Canned, complete_objects},
    store::{Mode, Store},
};
use crate::registry::{Input, Table, product};

/// Keys that depend on the response.
const FOLLOWS: &[(&str, &[&str])] = &[(
    "allowed",
    &[
        "message",
        "warnings",
        "posts",
        "deletes",
        "otherRequests",
        "writes",
        "panics",
    ],
)];
/// Keys that depend on which review is allowed.
const RECORDED: &[(&str, &[&str])] = &[("answers", &["recorded"])];
/// Parts of these texts are messages of Go.
const TEXTS: &[&str] = &["error", "body"];

pub(super) const TABLES: &[Table] = &[
    product(
        "no-downscale.json",
        "admit::no_downscale::NoDownscale",
        no_downscale,
    ),
    product("replicas-change.json", "admit::scaled::replicas_change", change),
    product("prepare-info.json", "admit::scaled::Scaled::parse", info).wording(TEXTS),
    product("prepare-endpoints.json", "scale::pods::prepare_url", endpoints),
    product("prepare-fan-out.json", "admit::prepare::Prepare", fan_out),
    product("prepare-downscale.json", "admit::prepare::Prepare", prepare).follows(FOLLOWS),
    product(
        "prepare-downscale-probes.json",
        "admit::prepare::Prepare",
        prepare,
    )
    .follows(FOLLOWS),
    product(
        "prepare-downscale-zone-tracker.json",
        "admit::prepare::Prepare",
        prepare,
    )
    .follows(FOLLOWS),
    product(
        "prepare-downscale-zone-tracker-probes.json",
        "admit::prepare::Prepare",
        prepare,
    )
    .follows(FOLLOWS),
    product(
        "prepare-downscale-sequences.json",
        "admit::prepare::Prepare",
        sequence,
    )
    .follows(RECORDED),
    product("non-updated-replicas.json", "admit::checks::held_up", held_up),
    product("admission-serve.json", "admit::serve", http)
        .wording(TEXTS)
        .follows(&[("status", &["panics", "body", "contentType"])]),
];

fn request(review: &Value) -> anyhow::Result<Request> {
    let body = serde_json::to_vec(review)?;
    Ok(Review::parse(&body).map_err(anyhow::Error::msg)?.request)
}

fn response(response: &Response) -> Map<String, Value> {
    let mut answer = Map::new();
    answer.insert("allowed".to_owned(), json!(response.allowed));
    answer.insert("message".to_owned(), json!(response.message));
    answer.insert("warnings".to_owned(), json!(response.warnings));
    if let Some(code) = response.code {
        answer.insert("code".to_owned(), json!(code));
    }
    answer
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Labelled {
    review: Value,
    #[serde(default)]
    parent: Option<Value>,
    #[serde(default)]
    get_error: Option<String>,
}

fn no_downscale(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: Labelled = input.parse()?;
    let mut webhook = NoDownscale::new(request(&input.review)?);
    let mut fact = Fact::Begin;
    loop {
        match webhook.advance(fact, Timestamp::UNIX_EPOCH) {
            Step::Answer(answer) => return Ok(Value::Object(response(&answer))),
            Step::Read(Read::Parent {
                resource,
                namespace,
                name,
            }) => {
                // The messages of the client there.
                let url = format!("http://api.invalid/apis/apps/v1/namespaces/{namespace}/{resource}/{name}");
                let error = input.get_error.as_ref();
                let failed = error.map(|error| ReadError::Failed(format!("Get {url:?}: {error}")));
                let missing = || ReadError::NotFound(format!("{name} not found"));
                fact = Fact::Parent(match failed {
                    Some(failed) => Err(failed),
                    None => input.parent.clone().ok_or_else(missing),
                });
            }
            step => bail!("no-downscale goes on with {step:?}"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replicas {
    old: Option<i32>,
    new: Option<i32>,
}

fn change(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: Replicas = input.parse()?;
    let answer = replicas_change(input.old, input.new);
    Ok(answer.map_or(Value::Null, |answer| Value::Object(response(&answer))))
}

fn info(input: &Input<'_>) -> anyhow::Result<Value> {
    let object = match Scaled::parse(Some(input.value)) {
        Ok(object) => object,
        Err(error) => return Ok(json!({"error": error.message()})),
    };
    let kind = object.kind;
    let mut answer = json!({
        "kind": format!("{} {}", kind.api_version(), kind.as_str()),
        "replicas": object.replicas,
    });
    if kind.as_str() == "StatefulSet" {
        let said = |key: &str| object.annotations.get(key).cloned().unwrap_or_default();
        answer["prepare"] = json!({
            "label": object.labels.get(PREPARE).is_some_and(|label| label == "true"),
            "port": said(PORT),
            "path": said(PATH),
            "group": object.labels.get("rollout-group").cloned().unwrap_or_default(),
            "service": object.service,
        });
    }
    Ok(answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Endpoints {
    cluster_domain: String,
    namespace: String,
    new: u64,
    old: u64,
    path: String,
    port: String,
    service: String,
    set: String,
}

fn endpoints(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: Endpoints = input.parse()?;
    let url = |ordinal: u64| {
        let host = fqdn(
            &input.set,
            ordinal,
            &input.service,
            &input.namespace,
            &input.cluster_domain,
        );
        let url = prepare_url(&host, &input.port, &input.path).map_err(anyhow::Error::msg)?;
        Ok(url.trim_start_matches("http://").to_owned())
    };
    let urls = (input.new..input.old).rev().map(url);
    Ok(json!(urls.collect::<anyhow::Result<Vec<String>>>()?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FanOut {
    endpoints: u32,
    fail_from: Option<usize>,
    verb: String,
}

/// How many requests a downscale of this number of pods sends. For DELETE the first POST fails, and the result of
/// DELETE does not matter.
fn fan_out(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: FanOut = input.parse()?;
    let is_post = input.verb == "POST";
    let method = if is_post { Method::Post } else { Method::Delete };
    let store = Store::of_one_set(input.endpoints);
    let mut webhook = Prepare::new(store.downscale_to_none(), Store::settings(), false);
    let mut store = store;
    let mut sent = 0;
    let mut answered = |ask: &Ask| -> Answered {
        let fails = if ask.method == method {
            sent += 1;
            input.fail_from.is_some_and(|from| sent >= from)
        } else {
            !is_post
        };
        let status = if fails { 500 } else { 200 };
        Ok(Answer {
            status,
            body: String::new(),
        })
    };
    let answer = store.run(&mut webhook, &mut answered)?;
    anyhow::ensure!(is_post || input.endpoints == 0 || !answer.allowed, "POST fails");
    let expected = sent;
    let all = usize::try_from(input.endpoints)?;
    let error = is_post && !answer.allowed;
    // If it depends on timing: as many as may be sent at once follow the first failure.
    Ok(match input.fail_from {
        Some(from) if is_post => {
            anyhow::ensure!(
                expected >= from.min(all) && expected < from + AT_ONCE,
                "{expected} were sent"
            );
            json!({"error": error, "sent": sent_between(from, expected, all)})
        }
        _ => json!({"error": error, "sent": {"exactly": expected}}),
    })
}

/// The bounds for the number of requests.
fn sent_between(from: usize, sent: usize, all: usize) -> Value {
    let at_least = from.saturating_sub(1);
    assert!(sent >= at_least && sent <= all, "{sent} of {all} were sent");
    json!({"atLeast": at_least, "atMost": all})
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Prepared {
    review: Value,
    objects: Vec<Value>,
    #[serde(default)]
    cluster_domain: Option<String>,
    #[serde(default)]
    config_map_name: Option<String>,
    #[serde(default)]
    errors: BTreeMap<String, String>,
    #[serde(default)]
    http: BTreeMap<String, Canned>,
}

fn prepare(input: &Input<'_>) -> anyhow::Result<Value> {
    let now: Timestamp = input.now.context("the file has an instant")?.parse()?;
    let input: Prepared = input.parse()?;
    let request = request(&input.review)?;
    let mode = match &input.config_map_name {
        Some(name) => Mode::Tracker(name.clone()),
        None => Mode::Annotation,
    };
    let mut store = Store::new(input.objects, mode, input.errors, now)?;
    store.add_what_upstream_leaves_out(&input.review);
    let settings = Settings {
        cluster_domain: input
            .cluster_domain
            .unwrap_or_else(|| "cluster.local.".to_owned()),
        namespace: request.namespace.clone(),
        ..Store::settings()
    };
    let mut webhook = Prepare::new(request, settings, input.config_map_name.is_some());
    let mut requests: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let http = input.http;
    let answer = store.run(&mut webhook, &mut |ask: &Ask| {
        let method = ask.method.as_str();
        let canned = http
            .get(&format!("{method} {}", ask.url))
            .or_else(|| http.get(method));
        requests.entry(method).or_default().push(ask.url.clone());
        canned.map_or_else(ok, Canned::answered)
    })?;
    let mut result = response(&answer);
    for (key, method) in [("posts", "POST"), ("deletes", "DELETE")] {
        let mut urls = requests.remove(method).unwrap_or_default();
        urls.sort();
        result.insert(key.to_owned(), json!(urls));
    }
    result.insert("writes".to_owned(), Value::Array(store.writes()));
    result.insert("~writes".to_owned(), Value::Array(store.sent()));
    result.insert("~configMap".to_owned(), store.config_map());
    Ok(Value::Object(result))
}

fn ok() -> Answered {
    Ok(Answer {
        status: 200,
        body: String::new(),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sequence {
    cluster_domain: String,
    mode: String,
    objects: Vec<Value>,
    steps: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Event {
    start: Option<Start>,
    release: Option<String>,
    pass_minutes: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    id: String,
    set: String,
    from: u32,
    to: u32,
    #[serde(default)]
    hold: bool,
}

/// A review in progress.
struct Running {
    id: String,
    set: String,
    to: u32,
    webhook: Prepare,
    /// Pods whose response is outstanding.
    held: Option<Vec<Ask>>,
    posts: usize,
    answer: Option<Response>,
}

/// Overlapping reviews against one store with compare-and-swap: each advances until its pods must answer.
fn sequence(input: &Input<'_>) -> anyhow::Result<Value> {
    let now: Timestamp = input.now.context("the file has an instant")?.parse()?;
    let input: Sequence = input.parse()?;
    let is_tracked = input.mode != "annotation";
    let mode = if is_tracked {
        Mode::Tracker("rollout-operator-zone-tracker".to_owned())
    } else {
        Mode::Annotation
    };
    let mut store = Store::new(input.objects, mode, BTreeMap::new(), now)?;
    let settings = Settings {
        cluster_domain: input.cluster_domain,
        ..Store::settings()
    };
    let mut reviews: Vec<Running> = Vec::new();
    for event in input.steps {
        if let Some(minutes) = event.pass_minutes {
            store.now += SignedDuration::from_mins(minutes);
        }
        let (index, hold) = if let Some(start) = event.start {
            let request = store.review(&start.id, &start.set, start.from, start.to)?;
            reviews.push(Running {
                id: start.id,
                set: start.set,
                to: start.to,
                webhook: Prepare::new(request, settings.clone(), is_tracked),
                held: None,
                posts: 0,
                answer: None,
            });
            (reviews.len() - 1, start.hold)
        } else if let Some(id) = event.release {
            let index = reviews.iter().position(|review| review.id == id);
            (index.context("the review has started")?, false)
        } else {
            continue;
        };
        let review = reviews.get_mut(index).context("it is there")?;
        review.go_on(&mut store, hold)?;
    }
    let mut own = Map::new();
    for review in &reviews {
        if review.answer.as_ref().is_some_and(|answer| answer.allowed) {
            own.insert(review.set.clone(), store.allowed_at(&review.id));
        }
    }
    let answers = reviews.iter().map(|review| {
        let answer = review.answer.clone().unwrap_or_default();
        json!({"id": review.id, "allowed": answer.allowed, "message": answer.message, "posts": review.posts})
    });
    Ok(json!({"answers": answers.collect::<Vec<_>>(), "recorded": store.recorded(), "~ownTimes": own}))
}

impl Running {
    fn go_on(&mut self, store: &mut Store, hold: bool) -> anyhow::Result<()> {
        let mut fact = match self.held.take() {
            Some(asks) => Fact::Answers(asks.iter().map(|_| ok()).collect()),
            None if self.answer.is_some() => return Ok(()),
            None => Fact::Begin,
        };
        loop {
            match self.webhook.advance(fact, store.now) {
                Step::Answer(answer) => {
                    if answer.allowed {
                        store.scaled(&self.id, &self.set, self.to);
                    }
                    self.answer = Some(answer);
                    return Ok(());
                }
                Step::Ask(asks) => {
                    self.posts += asks.iter().filter(|ask| ask.method == Method::Post).count();
                    if hold {
                        self.held = Some(asks);
                        return Ok(());
                    }
                    fact = Fact::Answers(asks.iter().map(|_| ok()).collect());
                }
                step => fact = store.carry_out(step)?,
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldUp {
    except: String,
    objects: Vec<Value>,
}

fn held_up(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: HeldUp = input.parse()?;
    let of = |kind: &str| -> Vec<Value> {
        input
            .objects
            .iter()
            .filter(|object| object["kind"] == kind)
            .cloned()
            .collect()
    };
    let (sets, mut pods) = (of("StatefulSet"), of("Pod"));
    if pods.is_empty() {
        pods.push(json!({"metadata": {"uid": "none"}})); // no pods are added where none are there on purpose
    }
    let (sets, pods) = complete_objects(&sets, &pods);
    let sets = sets.iter().map(Set::from_value).collect::<Result<Vec<_>, _>>()?;
    let pods = pods.iter().map(Pod::from_value).collect::<Result<Vec<_>, _>>()?;
    let group = Group::new("group", sets, &pods);
    Ok(checks::held_up(&group, &input.except).map_or(Value::Null, |held_up| {
        json!({"set": held_up.set, "nonReady": held_up.non_ready, "nonUpdated": held_up.non_updated})
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Http {
    #[allow(dead_code, reason = "any method is answered")]
    method: String,
    content_type: String,
    body: String,
}

/// For a webhook that allows everything with a warning.
fn http(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: Http = input.parse()?;
    let answer = match serve::read(&input.content_type, input.body.as_bytes()) {
        Ok(review) => serve::write(
            &review,
            &Response::warn(format!("{} {}", "seen", review.request.name)),
        ),
        Err(refusal) => refusal,
    };
    let body = if answer.content_type == serve::JSON {
        serde_json::from_str(&answer.body)?
    } else {
        json!(answer.body.trim_end_matches('\n'))
    };
    Ok(json!({"status": answer.status, "contentType": answer.content_type, "body": body}))
}
