//! ControllerRevisions: the template history of a StatefulSet or DaemonSet.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};

use super::hash::{fnv_1, suffix};
use super::plan::{Plan, Verb};
use super::template::owner;

/// The label by which pods name their revision; also that of the hash on the revisions of a DaemonSet.
pub(super) const LABEL: &str = "controller-revision-hash";

/// The label of the hash on the revisions of a StatefulSet.
const HASH: &str = "controller.kubernetes.io/hash";

/// Default number of old revisions to keep.
const HISTORY: i32 = 10;

/// How to make the revision of the current template the newest one.
#[derive(Clone, Debug)]
pub(super) enum Newest<'a> {
    /// It is already.
    Is(&'a ControllerRevision),
    /// Create this one.
    Make(ControllerRevision),
    /// Renumber this one: it was an old one until the template was changed back.
    Renumber(ControllerRevision),
}

/// Finds the revision of a template among those that its owner controls.
pub(super) fn newest<'a, K>(
    owned_by: &K,
    template: &PodTemplateSpec,
    all: &[&'a ControllerRevision],
) -> Newest<'a>
where
    K: Resource<DynamicType = ()>,
{
    let highest = all
        .iter()
        .map(|revision| revision.revision)
        .max()
        .unwrap_or_default(); // none before the first
    let same = all
        .iter()
        .filter(|revision| template_of(revision).as_ref() == Some(template));
    match same.max_by_key(|revision| revision.revision) {
        Some(found) if found.revision == highest => Newest::Is(found),
        Some(found) => Newest::Renumber(ControllerRevision {
            revision: highest + 1,
            ..(*found).clone()
        }),
        None => Newest::Make(new(owned_by, template, highest + 1)),
    }
}

/// The template of a revision.
pub(super) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let template = &revision.data.as_ref()?.0["spec"]["template"];
    serde_json::from_value(template.clone()).ok() // invalid: belongs to no template
}

/// The hash in the name of a DaemonSet's revision.
pub(super) fn hash(revision: &ControllerRevision) -> String {
    revision.labels().get(LABEL).cloned().unwrap_or_default() // revisions of the player have it
}

/// Deletes the oldest unused revisions beyond the history limit.
pub(super) fn prune_history(
    plan: &mut Plan,
    all: &[&ControllerRevision],
    limit: Option<i32>,
    is_used: impl Fn(&str) -> bool,
) {
    let mut unused: Vec<_> = all
        .iter()
        .filter(|revision| !is_used(&revision.name_any()))
        .collect();
    unused.sort_by_key(|revision| revision.revision);
    let keep = usize::try_from(limit.unwrap_or(HISTORY)).unwrap_or(usize::MAX); // negative values are rejected
    let too_many = unused.len().saturating_sub(keep);
    for revision in unused.into_iter().take(too_many) {
        plan.write(Verb::Delete, (*revision).clone());
    }
}

fn new<K: Resource<DynamicType = ()>>(
    owned_by: &K,
    template: &PodTemplateSpec,
    number: i64,
) -> ControllerRevision {
    let mut labels = template
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.labels.clone())
        .unwrap_or_default(); // none
    let mut data = json!({"spec": {"template": template}});
    data["spec"]["template"]["$patch"] = "replace".into();
    let hash = suffix(fnv_1(format!("{}0", go_json(&data)).as_bytes())); // after 0 name collisions
    let label = if K::kind(&()) == "StatefulSet" {
        HASH
    } else {
        LABEL
    };
    labels.insert(label.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", owned_by.name_any())),
            namespace: owned_by.namespace(),
            labels: Some(labels),
            annotations: owned_by.meta().annotations.clone(),
            owner_references: Some(vec![owner(owned_by)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// JSON as printed by Go, over which hashes are computed: HTML characters are escaped.
fn go_json(value: &Value) -> String {
    let text = value.to_string();
    text.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}
