//! Pods from a template, and their owner references.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::ObjectMeta;

/// An owner reference to the controller `object`.
pub(super) fn owner<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    let text = |field: &Option<String>| field.clone().unwrap_or_default(); // the server sets both
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: text(&object.meta().name),
        uid: text(&object.meta().uid),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod from a template. `metadata` has its name and namespace, and may have labels and annotations, which override
/// the template's.
pub(super) fn from_template(
    template: &PodTemplateSpec,
    mut metadata: ObjectMeta,
    owner: OwnerReference,
) -> Pod {
    let given = template.metadata.clone().unwrap_or_default(); // a template may have none
    let mut labels = given.labels.unwrap_or_default(); // the same
    labels.extend(metadata.labels.into_iter().flatten());
    let mut annotations = given.annotations.unwrap_or_default(); // the same
    annotations.extend(metadata.annotations.into_iter().flatten());
    metadata.labels = Some(labels);
    metadata.annotations = Some(annotations);
    metadata.finalizers = given.finalizers;
    metadata.owner_references = Some(vec![owner]);
    Pod {
        metadata,
        spec: template.spec.clone(),
        status: None,
    }
}
