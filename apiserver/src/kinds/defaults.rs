//! Defaults of built-in kinds.

use serde_json::{Map, Value, json};

use super::{service, webhooks};
use crate::core::Core;
use crate::crd;
use crate::resources::Resource;
use crate::webhooks::GROUP;

/// Fills in defaults, on create and on every update.
pub(crate) fn fill(resource: &Resource, object: &mut Value) {
    if resource.custom().is_some() {
        return;
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Secret") => secret(object),
        ("", "Service") => service::fill(object),
        ("", "Pod") => pod_spec(&mut object["spec"]),
        ("apps", "Deployment") => deployment(object),
        ("apps", "ReplicaSet") => {
            or(&mut object["spec"], "replicas", 1);
            template(object);
        }
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("batch", "Job") => job(object),
        ("", "Namespace") => {
            let name = crate::meta::name(object).to_owned();
            let mut labels = object["metadata"]["labels"]
                .as_object()
                .cloned()
                .unwrap_or_default(); // none yet
            labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
            crate::meta::set_metadata(object, "labels", labels.into());
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::check::fill(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => role_binding(object),
        (GROUP, "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            webhooks::fill(object);
        }
        _ => {}
    }
}

/// Fills in what only a new object gets: its first status, addresses.
pub(crate) fn set_initial_fields(resource: &Resource, object: &mut Value, core: &Core) {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Namespace") => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        ("", "Pod") => object["status"] = json!({"phase": "Pending", "qosClass": quality(&object["spec"])}),
        ("", "Service") => {
            service::assign_address(object, core);
            object["status"] = json!({"loadBalancer": {}});
        }
        ("", "PersistentVolumeClaim" | "PersistentVolume") => object["status"] = json!({"phase": "Pending"}),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") if resource.kind == "ReplicaSet" => {
            object["status"] = json!({"replicas": 0});
        }
        ("policy", "PodDisruptionBudget") => {
            object["status"] =
                json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
        }
        ("apps", "StatefulSet") => object["status"] = json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "DaemonSet") => {
            object["status"] = json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            });
        }
        ("apps", "Deployment") | ("batch", "Job") => object["status"] = json!({}),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let versions = object["spec"]["versions"].as_array().into_iter().flatten();
            let stored: Vec<Value> = versions
                .filter(|v| v["storage"] == true)
                .map(|v| v["name"].clone())
                .collect();
            object["status"] = json!({
                "acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored,
            });
        }
        _ => {}
    }
    if resource.is("batch", "Job") && object["spec"]["manualSelector"] != true {
        job_selector(object);
    }
}

/// Copies fields from the old object that the client left out of an update.
pub(crate) fn carry_over(resource: &Resource, old: &Value, new: &mut Value) {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Service") => service::carry_over_addresses(old, new),
        ("", "Namespace") => {
            new["spec"]["finalizers"] = carried(&new["spec"]["finalizers"], &old["spec"]["finalizers"]);
        }
        ("batch", "Job") => {
            for field in ["selector", "template"] {
                if new["spec"][field].is_null() {
                    new["spec"][field] = old["spec"][field].clone();
                }
            }
        }
        _ => {}
    }
}

fn carried(new: &Value, old: &Value) -> Value {
    if new.is_null() { old.clone() } else { new.clone() }
}

/// Sets a field that is absent.
fn or(parent: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(map) = parent.as_object_mut() {
        map.entry(field).or_insert_with(|| value.into());
    }
}

/// `stringData` is write-only: it is merged into `data`.
fn secret(object: &mut Value) {
    use base64::Engine as _;
    or(object, "type", "Opaque");
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(plain)) = fields.remove("stringData") else {
        return;
    };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    for (key, text) in plain {
        let text = text.as_str().unwrap_or_default();
        data[key] = base64::engine::general_purpose::STANDARD.encode(text).into();
    }
}

fn deployment(object: &mut Value) {
    template(object);
    let spec = &mut object["spec"];
    or(spec, "replicas", 1);
    or(spec, "revisionHistoryLimit", 10);
    or(spec, "progressDeadlineSeconds", 600);
    or(spec, "strategy", json!({}));
    let strategy = &mut spec["strategy"];
    or(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        or(strategy, "rollingUpdate", json!({}));
        or(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
        or(&mut strategy["rollingUpdate"], "maxSurge", "25%");
    }
}

fn stateful_set(object: &mut Value) {
    template(object);
    let spec = &mut object["spec"];
    or(spec, "replicas", 1);
    or(spec, "revisionHistoryLimit", 10);
    or(spec, "podManagementPolicy", "OrderedReady");
    or(spec, "updateStrategy", json!({}));
    or(
        spec,
        "persistentVolumeClaimRetentionPolicy",
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    );
    or(&mut spec["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        or(
            &mut spec["updateStrategy"],
            "rollingUpdate",
            json!({"partition": 0}),
        );
    }
}

fn daemon_set(object: &mut Value) {
    template(object);
    let spec = &mut object["spec"];
    or(spec, "revisionHistoryLimit", 10);
    or(spec, "updateStrategy", json!({}));
    or(&mut spec["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        or(
            &mut spec["updateStrategy"],
            "rollingUpdate",
            json!({"maxSurge": 0, "maxUnavailable": 1}),
        );
    }
}

fn job(object: &mut Value) {
    template(object);
    let spec = &mut object["spec"];
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        or(spec, "completions", 1);
    }
    or(spec, "parallelism", 1);
    or(spec, "backoffLimit", 6);
    or(spec, "completionMode", "NonIndexed");
    or(spec, "suspend", false);
    or(spec, "manualSelector", false);
    or(spec, "podReplacementPolicy", "TerminatingOrFailed");
    if spec["manualSelector"] == false
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("manualSelector");
    }
}

/// Jobs select their pods by their own uid.
fn job_selector(object: &mut Value) {
    let (uid, name) = (
        crate::meta::uid(object).to_owned(),
        crate::meta::name(object).to_owned(),
    );
    if !object["spec"]["template"].is_object() {
        return;
    }
    crate::meta::with_child(&mut object["spec"]["template"]["metadata"], "labels", |labels| {
        for prefix in ["", "batch.kubernetes.io/"] {
            labels.insert(format!("{prefix}controller-uid"), uid.clone().into());
            labels.insert(format!("{prefix}job-name"), name.clone().into());
        }
    });
    object["spec"]["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
}

fn role_binding(object: &mut Value) {
    or(&mut object["roleRef"], "apiGroup", "rbac.authorization.k8s.io");
    for subject in items_mut(object, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            or(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
}

/// The items of a list; empty if the list does not exist.
fn items_mut<'a>(object: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(list)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn template(object: &mut Value) {
    let template = &mut object["spec"]["template"];
    if template["spec"].is_object() {
        pod_spec(&mut template["spec"]);
    }
}

fn pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    or(spec, "restartPolicy", "Always");
    or(spec, "terminationGracePeriodSeconds", 30);
    or(spec, "dnsPolicy", "ClusterFirst");
    or(spec, "securityContext", json!({}));
    or(spec, "schedulerName", "default-scheduler");
    if let Some(account) = spec["serviceAccountName"].as_str().map(str::to_owned) {
        or(spec, "serviceAccount", account);
    }
    for volume in items_mut(spec, "volumes") {
        for (source, mode) in [
            ("configMap", 420),
            ("secret", 420),
            ("projected", 420),
            ("downwardAPI", 420),
        ] {
            or(&mut volume[source], "defaultMode", mode);
            if volume[source].is_null()
                && let Some(volume) = volume.as_object_mut()
            {
                volume.remove(source);
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec[list]
            .as_array_mut()
            .into_iter()
            .flatten()
            .for_each(container);
        if spec[list].is_null()
            && let Some(spec) = spec.as_object_mut()
        {
            spec.remove(list);
        }
    }
}

fn container(container: &mut Value) {
    or(container, "terminationMessagePath", "/dev/termination-log");
    or(container, "terminationMessagePolicy", "File");
    or(container, "resources", json!({}));
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .split_once(':')
        .map(|(_, tag)| tag);
    let is_latest = !image.contains('@') && tag.is_none_or(|tag| tag == "latest");
    or(
        container,
        "imagePullPolicy",
        if is_latest { "Always" } else { "IfNotPresent" },
    );
    for port in container
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        or(port, "protocol", "TCP");
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(kind) {
            probe_defaults(probe);
        }
    }
    for variable in container
        .get_mut("env")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(field) = variable
            .get_mut("valueFrom")
            .and_then(|from| from.get_mut("fieldRef"))
        {
            or(field, "apiVersion", "v1");
        }
    }
}

fn probe_defaults(probe: &mut Value) {
    for (field, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        or(probe, field, value);
    }
    if let Some(get) = probe.get_mut("httpGet") {
        or(get, "path", "/");
        or(get, "scheme", "HTTP");
    }
}

/// The quality-of-service class of a pod.
fn quality(spec: &Value) -> &'static str {
    let containers: Vec<&Value> = spec["containers"].as_array().into_iter().flatten().collect();
    let none = |c: &&Value| c["resources"]["requests"].is_null() && c["resources"]["limits"].is_null();
    let guaranteed = |c: &&Value| {
        let (limits, requests) = (&c["resources"]["limits"], &c["resources"]["requests"]);
        let whole = !limits["cpu"].is_null() && !limits["memory"].is_null();
        whole && (requests.is_null() || requests == limits)
    };
    if containers.iter().all(none) {
        "BestEffort"
    } else if containers.iter().all(guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
