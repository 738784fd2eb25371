//! The built-in kinds, one line each.

use std::sync::{Arc, LazyLock};

use super::{Resource, Scale, Typing};
use crate::status::GroupResource;

/// group, version, plural, kind, short names, flags: `n` namespaced, `s` status, `a` category all, `c` scale.
type Line = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const LINES: &[Line] = &[
    ("", "v1", "configmaps", "ConfigMap", "cm", "n"),
    ("", "v1", "endpoints", "Endpoints", "ep", "n"),
    ("", "v1", "events", "Event", "ev", "n"),
    ("", "v1", "limitranges", "LimitRange", "limits", "n"),
    ("", "v1", "namespaces", "Namespace", "ns", "s"),
    ("", "v1", "nodes", "Node", "no", "s"),
    (
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "pvc",
        "ns",
    ),
    ("", "v1", "persistentvolumes", "PersistentVolume", "pv", "s"),
    ("", "v1", "pods", "Pod", "po", "nsa"),
    ("", "v1", "podtemplates", "PodTemplate", "", "n"),
    (
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        "nsac",
    ),
    ("", "v1", "resourcequotas", "ResourceQuota", "quota", "ns"),
    ("", "v1", "secrets", "Secret", "", "n"),
    ("", "v1", "serviceaccounts", "ServiceAccount", "sa", "n"),
    ("", "v1", "services", "Service", "svc", "nsa"),
    (
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        "",
        "",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        "",
        "s",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        "",
        "",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        "",
        "",
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd,crds",
        "s",
    ),
    (
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "APIService",
        "",
        "s",
    ),
    ("apps", "v1", "controllerrevisions", "ControllerRevision", "", "n"),
    ("apps", "v1", "daemonsets", "DaemonSet", "ds", "nsa"),
    ("apps", "v1", "deployments", "Deployment", "deploy", "nsac"),
    ("apps", "v1", "replicasets", "ReplicaSet", "rs", "nsac"),
    ("apps", "v1", "statefulsets", "StatefulSet", "sts", "nsac"),
    (
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "hpa",
        "nsa",
    ),
    ("batch", "v1", "cronjobs", "CronJob", "cj", "nsa"),
    ("batch", "v1", "jobs", "Job", "", "nsa"),
    (
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        "csr",
        "s",
    ),
    ("coordination.k8s.io", "v1", "leases", "Lease", "", "n"),
    (
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "EndpointSlice",
        "",
        "n",
    ),
    ("events.k8s.io", "v1", "events", "Event", "ev", "n"),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "flowschemas",
        "FlowSchema",
        "",
        "s",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        "",
        "s",
    ),
    (
        "networking.k8s.io",
        "v1",
        "ingressclasses",
        "IngressClass",
        "",
        "",
    ),
    ("networking.k8s.io", "v1", "ingresses", "Ingress", "ing", "ns"),
    (
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        "netpol",
        "n",
    ),
    ("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", "", ""),
    (
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "pdb",
        "ns",
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        "",
        "",
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterroles",
        "ClusterRole",
        "",
        "",
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "rolebindings",
        "RoleBinding",
        "",
        "n",
    ),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", "", "n"),
    (
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        "pc",
        "",
    ),
    ("storage.k8s.io", "v1", "csidrivers", "CSIDriver", "", ""),
    ("storage.k8s.io", "v1", "csinodes", "CSINode", "", ""),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc", ""),
    (
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        "",
        "s",
    ),
];

/// The built-in resources, shared by all servers of a process.
pub(crate) fn all() -> &'static [Arc<Resource>] {
    static ALL: LazyLock<Vec<Arc<Resource>>> =
        LazyLock::new(|| LINES.iter().map(|line| Arc::new(resource(line))).collect());
    &ALL
}

fn resource(&(group, version, plural, kind, short, flags): &Line) -> Resource {
    let has = |flag: char| flags.contains(flag);
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    // The two API groups of Event share one store, which holds core events.
    let is_new_event = group == "events.k8s.io";
    let storage = GroupResource::new(if is_new_event { "" } else { group }, plural);
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: short
            .split(',')
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
            .collect(),
        categories: if has('a') {
            vec!["all".to_owned()]
        } else {
            Vec::new()
        },
        namespaced: has('n'),
        status: has('s'),
        scale: has('c').then(|| Scale {
            spec: ".spec.replicas".to_owned(),
            status: ".status.replicas".to_owned(),
            selector: Some(".spec.selector".to_owned()),
        }),
        storage,
        storage_api_version: if is_new_event {
            "v1".to_owned()
        } else {
            api_version.clone()
        },
        typing: Typing::Builtin(crate::builtin::type_of(&api_version, kind)),
    }
}

/// Whether the kind has a generation.
pub(crate) fn counts_generations(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(kind, "Pod" | "ReplicationController"),
        "apps" => kind != "ControllerRevision",
        "batch"
        | "networking.k8s.io"
        | "policy"
        | "apiextensions.k8s.io"
        | "flowcontrol.apiserver.k8s.io"
        | "admissionregistration.k8s.io"
        | "autoscaling" => true,
        _ => false,
    }
}
