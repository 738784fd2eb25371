//! CustomResourceDefinitions: their validation, how their kinds become served, and how they are removed.
//!
//! - `check`: validation of a definition (422 with causes), and its defaults; `selectable`: its selectable fields.
//! - here: the life cycle, run by the worker: names accepted ─► established ─► served ─► terminating ─► gone.

pub(crate) mod check;
mod selectable;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::conditions::set_condition;
use crate::core::Core;
use crate::meta;
use crate::removal::Propagation;
use crate::resources::{CustomVersion, Resource, Scale, Typing, builtin};
use crate::schema::Schema;
use crate::status::GroupResource;
use crate::store::{ObjectId, ObjectKey};
use crate::work::Work;

/// Finalizer that keeps a definition while it has instances.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// How long a definition outlives its last instance, so that watchers get the last deletion before the path is gone.
const LINGER: Duration = Duration::from_secs(1);

fn definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Reconciles a definition by one step.
pub(crate) fn reconcile_definition(core: &Arc<Core>, name: &str) {
    let id = ObjectId {
        resource: definitions(),
        key: ObjectKey::new("", name),
    };
    let Some(definition) = core.store.get(&id.resource, &id.key) else {
        withdraw(core, name);
        return;
    };
    let definition = definition.value();
    if meta::is_terminating(&definition) && meta::has_finalizer(&definition, CLEANUP) {
        serve(core, &definition);
        finish(core, &id, &definition);
    } else if !meta::is_terminating(&definition) {
        establish(core, &id);
    }
}

/// Establishes a definition without waiting for the worker. Returns why it cannot be established, or `None`.
pub(crate) fn establish_now(core: &Arc<Core>, name: &str) -> Option<String> {
    reconcile_definition(core, name);
    let definition = core.store.get(&definitions(), &ObjectKey::new("", name))?;
    let definition = definition.value();
    if is_established(&definition) {
        return None;
    }
    let mut conditions = definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let names = conditions.find(|condition| condition["type"] == "NamesAccepted");
    let message = names.and_then(|condition| condition["message"].as_str());
    Some(format!("it is not established: {}", message.unwrap_or_default()))
}

/// Stops serving the resource.
fn withdraw(core: &Arc<Core>, name: &str) {
    let Some((plural, group)) = name.split_once('.') else {
        return;
    };
    let storage = GroupResource::new(group, plural);
    if builtin::all().iter().all(|resource| resource.storage != storage) {
        core.registry.change(|catalog| catalog.remove(group, plural));
        core.store.close(&storage);
    }
}

/// Serves an established definition before its condition says so, so that a client that has read the condition finds
/// the resource.
fn establish(core: &Arc<Core>, id: &ObjectId) {
    let now = core.clock.stamp();
    let examine = |definition: &Value| examined(core, definition, &now);
    if let Some(known) = core.store.get(&id.resource, &id.key) {
        serve_established(core, &examine(&known.value()));
    }
    let stored = core.edit(id, |definition| Some(examine(definition)));
    if let Some(stored) = stored {
        serve_established(core, &stored.value());
    }
}

fn serve_established(core: &Arc<Core>, definition: &Value) {
    if is_established(definition) {
        serve(core, definition);
    }
}

/// The definition with the status of its names.
fn examined(core: &Arc<Core>, definition: &Value, now: &str) -> Value {
    let clash = name_clash(core, definition);
    let mut definition = definition.clone();
    meta::add_finalizer(&mut definition, CLEANUP);
    let versions = stored_versions(&definition);
    definition["status"]["storedVersions"] = versions;
    if let Some(clash) = clash {
        let condition =
            json!({"type": "NamesAccepted", "status": "False", "reason": clash.0, "message": clash.1});
        set_condition(&mut definition, condition, now);
        let not = json!({"type": "Established", "status": "False", "reason": "NotAccepted", "message": "not all names are accepted"});
        set_condition(&mut definition, not, now);
        return definition;
    }
    definition["status"]["acceptedNames"] = definition["spec"]["names"].clone();
    let accepted = json!({"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"});
    set_condition(&mut definition, accepted, now);
    let established = json!({"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"});
    set_condition(&mut definition, established, now);
    definition
}

fn is_established(definition: &Value) -> bool {
    let mut conditions = definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions.any(|c| c["type"] == "Established" && c["status"] == "True")
}

/// Every version that has been the storage version since the definition was created.
fn stored_versions(definition: &Value) -> Value {
    let mut versions = definition["status"]["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default(); // none yet
    let stored = storage_version(definition);
    if !versions.contains(&stored) {
        versions.push(stored);
    }
    versions.into()
}

fn storage_version(definition: &Value) -> Value {
    let mut versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .find(|v| v["storage"] == true)
        .map_or(Value::Null, |v| v["name"].clone())
}

/// A name that another definition or built-in kind of the group already uses: reason and message.
fn name_clash(core: &Arc<Core>, definition: &Value) -> Option<(&'static str, String)> {
    let catalog = core.registry.catalog();
    let (group, names) = (
        definition["spec"]["group"].as_str()?,
        &definition["spec"]["names"],
    );
    let plural = names["plural"].as_str()?;
    let others = catalog
        .versions()
        .filter(|(g, ..)| *g == group)
        .flat_map(|(_, _, resources)| resources.values())
        .filter(|resource| resource.plural != plural);
    let wanted_short = |name: &String| {
        names["shortNames"]
            .as_array()
            .is_some_and(|all| all.iter().any(|s| s == name))
    };
    for other in others {
        let taken = |name: &str| format!("\"{name}\" is already in use");
        if names["kind"] == other.kind.as_str() {
            return Some(("KindConflict", taken(&other.kind)));
        }
        if names["listKind"] == other.list_kind.as_str() {
            return Some(("ListKindConflict", taken(&other.list_kind)));
        }
        if names["singular"] == other.singular.as_str() {
            return Some(("SingularConflict", taken(&other.singular)));
        }
        if let Some(short) = other.short_names.iter().find(|name| wanted_short(name)) {
            return Some(("ShortNamesConflict", taken(short)));
        }
    }
    None
}

/// Adds the versions of a definition to the catalog.
fn serve(core: &Arc<Core>, definition: &Value) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let terminating = meta::is_terminating(definition);
    let source = format!(
        "{} {} {terminating}",
        meta::uid(definition),
        meta::generation(definition)
    );
    let storage = GroupResource::new(&group, &plural);
    let served = core.registry.catalog().of_store(&storage).cloned();
    if served.is_some_and(|resource| resource.custom().is_some_and(|custom| custom.source == source)) {
        return; // this definition is already served: no need to parse its schema again
    }
    let versions = || spec["versions"].as_array().into_iter().flatten();
    let Some((_, stored)) = versions()
        .find(|version| version["storage"] == true)
        .and_then(schema_of)
    else {
        return; // definitions with an invalid schema were rejected when written
    };
    let resources: Vec<Arc<Resource>> = versions()
        .filter(|version| version["served"] == true)
        .filter_map(|version| resource(spec, version, terminating, &source, &stored))
        .map(Arc::new)
        .collect();
    core.store.open(&storage, true);
    if !terminating {
        core.store.renew(&storage);
    }
    core.registry.change(|catalog| {
        catalog.remove(&group, &plural);
        for resource in resources {
            catalog.insert(resource);
        }
    });
}

fn schema_of(version: &Value) -> Option<(Arc<str>, Arc<Schema>)> {
    Schema::shared(&version["schema"]["openAPIV3Schema"]).ok() // as above
}

fn resource(
    spec: &Value,
    version: &Value,
    terminating: bool,
    source: &str,
    stored: &Arc<Schema>,
) -> Option<Resource> {
    let (openapi, schema) = schema_of(version)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let (group, names) = (text(&spec["group"]), &spec["names"]);
    let scale = &version["subresources"]["scale"];
    let storage = spec["versions"]
        .as_array()?
        .iter()
        .find(|v| v["storage"] == true)?;
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    Some(Resource {
        version: text(&version["name"]),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        status: version["subresources"]["status"].is_object(),
        scale: scale.is_object().then(|| Scale {
            spec: text(&scale["specReplicasPath"]),
            status: text(&scale["statusReplicasPath"]),
            selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        }),
        storage: GroupResource::new(&group, names["plural"].as_str()?),
        storage_api_version: format!("{group}/{}", text(&storage["name"])),
        typing: Typing::Custom(Arc::new(CustomVersion {
            schema,
            stored: Arc::clone(stored),
            openapi,
            columns: version["additionalPrinterColumns"]
                .as_array()
                .cloned()
                .unwrap_or_default(), // none: use the defaults
            selectable: selectable
                .filter_map(|field| field["jsonPath"].as_str())
                .map(str::to_owned)
                .collect(),
            terminating,
            source: source.to_owned(),
            deprecation: deprecation(&group, version, names),
        })),
        group,
    })
}

fn deprecation(group: &str, version: &Value, names: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    let own = version["deprecationWarning"].as_str().map(str::to_owned);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(own.unwrap_or_else(|| {
        format!(
            "{group}/{} {} is deprecated",
            text(&version["name"]),
            text(&names["kind"])
        )
    }))
}

/// Deletes the instances of a definition that is being deleted, and removes the finalizer after the last one.
fn finish(core: &Arc<Core>, id: &ObjectId, definition: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = GroupResource::new(
        &text(&definition["spec"]["group"]),
        &text(&definition["spec"]["names"]["plural"]),
    );
    for object in core.store.all(&resource, None) {
        if !object.is_terminating() {
            let instance = ObjectId {
                resource: resource.clone(),
                key: object.key().clone(),
            };
            core.remove(&instance, object.uid(), Propagation::Background);
        }
    }
    let left = core.store.all(&resource, None).len();
    let now = core.clock.stamp();
    core.edit(id, |definition| {
        let mut definition = definition.clone();
        let condition = if left == 0 {
            json!({"type": "Terminating", "status": "False", "reason": "InstanceDeletionCompleted", "message": "removed all instances"})
        } else {
            json!({"type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress", "message": "CustomResource deletion is in progress"})
        };
        set_condition(&mut definition, condition, &now);
        Some(definition)
    });
    if left == 0 {
        core.work
            .push_later(Work::DefinitionEnd(id.key.name.clone()), LINGER);
    }
}

/// Removes a definition that is being deleted and has no instances, after `LINGER`.
pub(crate) fn end(core: &Arc<Core>, name: &str) {
    let id = ObjectId {
        resource: definitions(),
        key: ObjectKey::new("", name),
    };
    let Some((plural, group)) = name.split_once('.') else {
        return;
    };
    if !core
        .store
        .all(&GroupResource::new(group, plural), None)
        .is_empty()
    {
        return;
    }
    core.edit(&id, |definition| {
        let mut definition = definition.clone();
        (meta::is_terminating(&definition) && meta::remove_finalizer(&mut definition, CLEANUP))
            .then_some(definition)
    });
    if core.store.get(&id.resource, &id.key).is_none() {
        withdraw(core, name);
    }
}
