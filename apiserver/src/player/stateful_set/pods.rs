//! The pods of a StatefulSet: their ordinals, and the pod of an ordinal.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

use super::super::revision::LABEL;
use super::super::template::{from_template, owner};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The pods of a set with their ordinals; pods with other names are left out.
pub(super) fn numbered<'a>(set: &StatefulSet, pods: &[&'a Pod]) -> Vec<(i32, &'a Pod)> {
    let prefix = format!("{}-", set.name_any());
    let number = |pod: &Pod| pod.name_any().strip_prefix(&prefix)?.parse().ok(); // another name
    let mut numbered: Vec<(i32, &Pod)> = pods.iter().filter_map(|pod| Some((number(pod)?, *pod))).collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered
}

/// A new pod with this ordinal and revision.
pub(super) fn new(set: &StatefulSet, number: i32, revision: &str, template: &PodTemplateSpec) -> Pod {
    let name = format!("{}-{number}", set.name_any());
    let labels = [
        (LABEL, revision.to_owned()),
        (POD_NAME, name.clone()),
        (POD_INDEX, number.to_string()),
    ];
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        generate_name: Some(format!("{}-", set.name_any())),
        namespace: set.metadata.namespace.clone(),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        ..ObjectMeta::default()
    };
    let mut pod = from_template(template, metadata, owner(set));
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.as_ref().and_then(|spec| spec.service_name.clone());
    for (index, template) in templates(set).iter().enumerate() {
        let claim = template.name_any();
        let volumes = spec.volumes.get_or_insert_default();
        volumes.retain(|volume| volume.name != claim);
        let source = PersistentVolumeClaimVolumeSource {
            claim_name: format!("{claim}-{name}"),
            read_only: None,
        };
        let volume = Volume {
            name: claim,
            persistent_volume_claim: Some(source),
            ..Volume::default()
        };
        volumes.insert(index, volume); // before those of the template
    }
    pod
}

/// The claims of a pod with this ordinal.
pub(super) fn claims(set: &StatefulSet, number: i32) -> impl Iterator<Item = PersistentVolumeClaim> {
    let labels = set
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.match_labels.clone());
    templates(set).iter().map(move |template| {
        let mut claim = template.clone();
        claim.metadata = ObjectMeta {
            name: Some(format!("{}-{}-{number}", template.name_any(), set.name_any())),
            namespace: set.metadata.namespace.clone(),
            labels: labels.clone().map(|mut labels| {
                labels.extend(template.metadata.labels.clone().into_iter().flatten());
                labels
            }),
            annotations: template.metadata.annotations.clone(),
            ..ObjectMeta::default()
        };
        claim.status = None;
        claim
    })
}

fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec
        .as_ref()
        .and_then(|spec| spec.volume_claim_templates.as_deref())
        .unwrap_or_default()
}
