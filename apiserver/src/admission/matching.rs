//! Whether to call a webhook for a request.

use serde_json::{Value, json};

use super::attributes::{Attributes, TypeName, View};
use super::review;
use crate::core::Core;
use crate::resources::catalog::Catalog;
use crate::resources::versions::presented;
use crate::select::label_selector_matches;
use crate::status::{ApiError, GroupResource};
use crate::store::ObjectKey;
use crate::webhooks::{FailurePolicy, Hook, MatchPolicy, Rule};

/// The version in which `hook` receives the request; `None` if it does not match. An error denies the request.
pub(super) fn view(core: &Core, hook: &Hook, request: &Attributes<'_>) -> Result<Option<View>, ApiError> {
    let namespace = namespace_matches(core, hook, request);
    if matches!(namespace, Ok(false)) || !object_matches(hook, request) {
        return Ok(None);
    }
    let Some(view) = viewed_at(&core.registry.catalog(), hook, request) else {
        return Ok(None);
    };
    namespace?;
    Ok(conditions_hold(core, hook, request, &view)?.then_some(view))
}

/// Cluster-scoped objects match every selector, but a Namespace is selected by its own labels.
fn namespace_matches(core: &Core, hook: &Hook, request: &Attributes<'_>) -> Result<bool, ApiError> {
    if request.namespace.is_empty() || hook.namespace_selector == json!({}) {
        return Ok(true);
    }
    if let Some(labels) = request.own_labels() {
        return Ok(label_selector_matches(&hook.namespace_selector, labels));
    }
    let namespaces = GroupResource::new("", "namespaces");
    let key = ObjectKey::new("", &request.namespace);
    let Some(namespace) = core.store.get(&namespaces, &key) else {
        return Err(ApiError::not_found(&namespaces, &request.namespace));
    };
    let labels = &namespace.value()["metadata"]["labels"];
    Ok(label_selector_matches(&hook.namespace_selector, labels))
}

/// A match of the old object is sufficient.
fn object_matches(hook: &Hook, request: &Attributes<'_>) -> bool {
    let selector = &hook.object_selector;
    *selector == json!({})
        || request
            .labels()
            .any(|labels| label_selector_matches(selector, labels))
}

fn viewed_at(catalog: &Catalog, hook: &Hook, request: &Attributes<'_>) -> Option<View> {
    let requested_version = &request.resource.version;
    if hook
        .rules
        .iter()
        .any(|rule| matches(rule, request, requested_version))
    {
        return Some(View {
            version: requested_version.clone(),
            kind: request.kind.clone(),
        });
    }
    if hook.match_policy == MatchPolicy::Exact {
        return None;
    }
    let versions = catalog.versions().filter_map(|(group, version, resources)| {
        let is_other = group == request.resource.group && version != requested_version;
        resources.get(&request.resource.plural).filter(|_| is_other)
    });
    let others: Vec<_> = versions.collect();
    let pairs = hook
        .rules
        .iter()
        .flat_map(|rule| others.iter().map(move |other| (rule, other)));
    let (_, found) = pairs
        .into_iter()
        .find(|(rule, other)| matches(rule, request, &other.version))?;
    let is_own_kind = request.kind == TypeName::of(request.resource);
    Some(View {
        version: found.version.clone(),
        kind: if is_own_kind {
            TypeName::of(found)
        } else {
            request.kind.clone()
        },
    })
}

fn matches(rule: &Rule, request: &Attributes<'_>, version: &str) -> bool {
    let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
    let is_namespaced = !request.is_namespace() && !request.namespace.is_empty();
    let scope = match rule.scope.as_str() {
        "Namespaced" => is_namespaced,
        "Cluster" => !is_namespaced,
        _ => true,
    };
    let resource = |item: &String| {
        let (resource, subresource) = item.split_once('/').unwrap_or((item, ""));
        (resource == "*" || resource == request.resource.plural)
            && (subresource == "*" || subresource == request.subresource)
    };
    scope
        && has(&rule.operations, request.operation.as_str())
        && has(&rule.api_groups, &request.resource.group)
        && has(&rule.api_versions, version)
        && rule.resources.iter().any(resource)
}

/// A single false condition skips the webhook; an error is subject to the failure policy.
fn conditions_hold(
    core: &Core,
    hook: &Hook,
    request: &Attributes<'_>,
    view: &View,
) -> Result<bool, ApiError> {
    if hook.match_conditions.is_empty() {
        return Ok(true);
    }
    let (object, old) = objects(core, request, view);
    let (object, old) = (object.unwrap_or_default(), old.unwrap_or_default()); // null, where there is none
    let review_request = review::request(request, view, "");
    let variables = [
        ("object", &object),
        ("oldObject", &old),
        ("request", &review_request),
    ];
    let mut errors = Vec::new();
    for condition in &hook.match_conditions {
        match condition.condition.holds(&variables) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => errors.push(format!(
                "expression '{}' resulted in error: {error}",
                condition.text
            )),
        }
    }
    if errors.is_empty() {
        return Ok(true);
    }
    if hook.failure_policy == FailurePolicy::Ignore {
        return Ok(false);
    }
    errors.dedup();
    let why = match errors.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(ApiError::forbidden(
        &request.group_resource(),
        request.shown_name(),
        &why,
        &[],
    ))
}

/// The object and its old version, in the version that the webhook receives.
pub(super) fn objects(core: &Core, request: &Attributes<'_>, view: &View) -> (Option<Value>, Option<Value>) {
    let catalog = core.registry.catalog();
    let resource = &request.resource;
    let other = catalog
        .find(&resource.group, &view.version, &resource.plural)
        .filter(|_| view.version != resource.version && view.kind.kind == resource.kind);
    let at_version = |object: &Option<Value>| {
        let object = object.clone()?;
        Some(match other {
            Some(other) => presented(other, object),
            None => object,
        })
    };
    (at_version(&request.object), at_version(&request.old))
}
