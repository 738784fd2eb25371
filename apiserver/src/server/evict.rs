//! The eviction subresource of pods: a deletion that respects the pod's PodDisruptionBudget.
//!
//! The numbers of healthy pods and of allowed disruptions are in the status of the budget, which a controller writes.
//! Until it has observed the budget, no pod of the budget is evicted.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::delete::{self, DeleteOptions};
use super::{Call, admit, decode, respond};
use crate::admission::{Operation, TypeName};
use crate::core::{Live, Step};
use crate::http::Body;
use crate::http::Verb;
use crate::meta;
use crate::select::label_selector_matches;
use crate::status::{ApiError, GroupResource};
use crate::store::{ObjectKey, PageQuery, Write};

/// Maximum number of evictions in a budget's status that its controller has not processed yet.
const MAX_DISRUPTED: usize = 2000;

/// `retryAfterSeconds` while the controller has not observed a budget.
const RETRY_AFTER: u32 = 10;

pub(super) async fn serve_eviction(call: &Call<'_>, verb: Verb) -> Result<http::Response<Body>, ApiError> {
    if verb != Verb::Create {
        return Err(ApiError::method_not_allowed());
    }
    let mut eviction = decode::decode_object(&call.content_type, &call.body)?.value;
    identify(call, &mut eviction)?;
    let is_dry_run = call.query.dry_run()?;
    let attributes = admit::attributes(call, Operation::Create, is_dry_run, None);
    let mut attributes = attributes.about(&call.target.name, Some(eviction.clone()), None);
    attributes.kind = TypeName {
        group: "policy".to_owned(),
        version: "v1".to_owned(),
        kind: "Eviction".to_owned(),
    };
    let hooks = call.core.webhooks.hooks(&call.core.store);
    if let Some(hooks) = &hooks {
        hooks.mutate(call.core, &mut attributes, &call.warnings).await?;
        eviction = attributes.object.clone().unwrap_or_default(); // the caller passed it
    }
    if meta::name(&eviction) != call.target.name {
        let why = "name in URL does not match name in Eviction object";
        return Err(ApiError::bad_request(why));
    }
    let options = options(&eviction, is_dry_run)?;
    if let Some(hooks) = &hooks {
        hooks.validate(call.core, &attributes, &call.warnings).await?;
    }
    evict(call, options)?;
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    respond::formatted(call, 201, &done)
}

/// Checks that the body is an Eviction for this path, and completes it.
fn identify(call: &Call<'_>, eviction: &mut Value) -> Result<(), ApiError> {
    let text = |field: &str| eviction[field].as_str().unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let is_one = matches!(kind.as_str(), "" | "Eviction")
        && matches!(api_version.as_str(), "" | "policy/v1" | "policy/v1beta1");
    if !is_one {
        return Err(ApiError::bad_request(&format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in the eviction subresource"
        )));
    }
    eviction["kind"] = "Eviction".into();
    eviction["apiVersion"] = "policy/v1".into();
    let namespace = meta::namespace(eviction);
    if !namespace.is_empty() && namespace != call.target.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    meta::set_metadata(eviction, "namespace", call.target.namespace.clone().into());
    Ok(())
}

/// `deleteOptions`; a dry run of the eviction is one of the deletion.
fn options(eviction: &Value, is_dry_run: bool) -> Result<DeleteOptions, ApiError> {
    let given = &eviction["deleteOptions"];
    let mut options = if given.is_null() {
        DeleteOptions::default()
    } else {
        DeleteOptions::deserialize(given)
            .map_err(|error| ApiError::bad_request(&format!("unable to decode DeleteOptions: {error}")))?
    };
    if is_dry_run {
        options.dry_run.get_or_insert_with(|| vec!["All".to_owned()]);
    }
    Ok(options)
}

fn evict(call: &Call<'_>, mut options: DeleteOptions) -> Result<(), ApiError> {
    let pod = Live::read(&call.core.store, call.live()?);
    let mut budget = None;
    if !is_free(&pod.value)
        && let Some(guard) = guard(call, &pod.value)?
    {
        let status = &guard.value["status"];
        let number = |field: &str| status[field].as_i64().unwrap_or_default(); // absent is 0
        let has_spare = number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy");
        let always = guard.value["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        let name = meta::name(&guard.value).to_owned();
        if !is_ready(&pod.value) && (always || has_spare) {
            // The eviction disrupts nothing, unless the pod has become ready in the meantime.
            let version = meta::resource_version(&pod.value).to_owned();
            if options.require_version(version) {
                budget = Some(name);
            }
        } else {
            take_one(call, &guard, meta::name(&pod.value), options.is_dry_run())?;
        }
    }
    if !options.is_dry_run() {
        let version = announce(call, &options)?;
        options.follow_version(version);
    }
    match (delete::delete_object(call, &options, &call.key()), budget) {
        (Err(error), Some(budget)) if error.code == 409 => Err(unobserved(&budget)),
        (done, _) => done,
    }
}

/// Whether a pod may be evicted regardless of its budget: it is not running, or is being deleted already.
fn is_free(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str();
    meta::is_terminating(pod) || matches!(phase, Some("Succeeded" | "Failed" | "Pending"))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn budgets() -> GroupResource {
    GroupResource::new("policy", "poddisruptionbudgets")
}

/// The budget of a pod.
fn guard(call: &Call<'_>, pod: &Value) -> Result<Option<Live>, ApiError> {
    let query = PageQuery {
        namespace: Some(&call.target.namespace),
        ..PageQuery::default()
    };
    let page = call.core.store.page(&budgets(), &query);
    let all = page.map(|page| page.items).unwrap_or_default(); // a list at the current version cannot be expired
    let mut guards = all
        .into_iter()
        .map(|object| Live::read(&call.core.store, object))
        .filter(|budget| {
            let selector = &budget.value["spec"]["selector"];
            selector.is_object() && label_selector_matches(selector, &pod["metadata"]["labels"])
        });
    let first = guards.next();
    if guards.next().is_some() {
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(ApiError::new(500, "", why, Value::Null));
    }
    Ok(first)
}

/// Uses one disruption of a budget, and records the pod until its controller has processed the deletion.
fn take_one(call: &Call<'_>, guard: &Live, pod: &str, is_dry_run: bool) -> Result<(), ApiError> {
    let key = ObjectKey::of(&guard.value);
    let taken = call.core.replace(&budgets(), &key, |live| {
        let live = live.ok_or_else(|| {
            let budgets = GroupResource::new("policy", "poddisruptionbudgets");
            ApiError::not_found(&budgets, &key.name)
        })?;
        check(&live.value)?;
        let mut new = Value::clone(&live.value);
        let status = &mut new["status"];
        let left = status["disruptionsAllowed"].as_i64().unwrap_or_default() - 1; // checked above
        status["disruptionsAllowed"] = left.into();
        if left == 0 {
            insufficient(status, &call.core.clock.stamp());
        }
        status["disruptedPods"][pod] = call.core.clock.stamp().into();
        if is_dry_run {
            return Ok(Step::Keep(live.object.clone(), ()));
        }
        Ok(Step::Commit(Write::Put(new), ()))
    });
    taken.map(|_| ())
}

/// Whether a budget allows one more disruption.
fn check(budget: &Value) -> Result<(), ApiError> {
    let (name, status) = (meta::name(budget), &budget["status"]);
    let number = |field: &str| status[field].as_i64().unwrap_or_default(); // absent is 0
    let forbidden = |why: &str| {
        let resource = GroupResource::new("policy", "poddisruptionbudget");
        Err(ApiError::forbidden(&resource, name, why, &[]))
    };
    if number("observedGeneration") < meta::generation(budget) {
        return Err(unobserved(name));
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"]
        .as_object()
        .is_some_and(|pods| pods.len() > MAX_DISRUPTED)
    {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed > 0 {
        return Ok(());
    }
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions
        .into_iter()
        .find(|condition| condition["type"] == "DisruptionAllowed" && condition["status"] == "False");
    let text = |field: &str| {
        condition
            .and_then(|condition| condition[field].as_str())
            .unwrap_or_default()
    };
    let (reason, message) = (text("reason"), text("message"));
    let prefix = format!("The disruption budget {name}");
    let why = if reason == "SyncFailed" && !message.is_empty() {
        format!("{prefix} does not allow evicting pods currently because it failed sync: {message}")
    } else if healthy <= desired {
        format!("{prefix} needs {desired} healthy pods and has {healthy} currently")
    } else if !message.is_empty() {
        format!("{prefix} does not allow evicting pods currently ({reason}): {message}")
    } else {
        format!("{prefix} does not allow evicting pods currently")
    };
    Err(too_many(&why, 0))
}

/// Sets the condition if no disruption is left.
fn insufficient(status: &mut Value, now: &str) {
    let observed = status["observedGeneration"].clone();
    let conditions = status["conditions"].as_array_mut().into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == "DisruptionAllowed") {
        condition["status"] = "False".into();
        condition["reason"] = "InsufficientPods".into();
        condition["lastTransitionTime"] = now.into();
        condition["observedGeneration"] = observed.clone();
    }
}

fn unobserved(budget: &str) -> ApiError {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    too_many(&why, RETRY_AFTER)
}

fn too_many(why: &str, retry_after: u32) -> ApiError {
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
    if retry_after > 0 {
        details["retryAfterSeconds"] = retry_after.into();
    }
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::new(429, "TooManyRequests", message, details)
}

/// Adds the disruption condition to the pod's status, if it still matches the preconditions. Returns its version.
fn announce(call: &Call<'_>, options: &DeleteOptions) -> Result<String, ApiError> {
    let named = GroupResource::new("", "Pod");
    let now = call.core.clock.stamp();
    let (pod, ()) = call.core.replace(&call.resource.storage, &call.key(), |live| {
        let live = live.ok_or_else(|| call.not_found())?;
        delete::check_preconditions(&named, options, live)?;
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastTransitionTime": now,
        });
        let mut new = Value::clone(&live.value);
        let conditions = &mut new["status"]["conditions"];
        let mut all = conditions.as_array().cloned().unwrap_or_default(); // none yet
        match all.iter_mut().find(|old| old["type"] == condition["type"]) {
            Some(old) if old["status"] == "True" => return Ok(Step::Keep(live.object.clone(), ())),
            Some(old) => *old = condition,
            None => all.push(condition),
        }
        *conditions = all.into();
        Ok(Step::Commit(Write::Put(new), ()))
    })?;
    Ok(pod.revision.to_string())
}
