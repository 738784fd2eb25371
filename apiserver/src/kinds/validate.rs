//! Validation of built-in kinds: the checks that users encounter.

use serde_json::{Value, json};

use super::webhooks;
use crate::crd;
use crate::resources::Resource;
use crate::resources::names::is_dns_label;
use crate::schema::{Cause, reason};
use crate::select::label_selector_matches;
use crate::webhooks::GROUP;

/// Validation errors of an object of a built-in kind.
pub(crate) fn check(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Secret") => secret(new, old, &mut causes),
        ("", "ConfigMap") => config_map(new, old, &mut causes),
        ("", "Service") => service(new, old, &mut causes),
        ("", "Pod") => pod_spec(&new["spec"], "spec", &mut causes),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload(resource, new, old, &mut causes);
        }
        ("batch", "Job") => pod_spec(
            &new["spec"]["template"]["spec"],
            "spec.template.spec",
            &mut causes,
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => causes.extend(crd::check::problems(new, old)),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            role_binding(new, old, &mut causes);
        }
        (GROUP, "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            causes.extend(webhooks::problems(new));
        }
        _ => {}
    }
    causes
}

const DATA_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
/// The limit of all data of a Secret or ConfigMap, in bytes.
const DATA_LIMIT: usize = 1024 * 1024;

fn data_keys(object: &Value, field: &str, causes: &mut Vec<Cause>) -> usize {
    let mut size = 0;
    for (key, value) in object[field].as_object().into_iter().flatten() {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if key.is_empty() || !key.chars().all(fine) {
            causes.push(Cause::invalid(
                format!("{field}[{key}]"),
                &key.as_str().into(),
                DATA_KEY,
            ));
        }
        if !value.is_string() {
            causes.push(Cause::new(
                reason::TYPE_INVALID,
                format!("{field}[{key}]"),
                "Invalid value: must be a string",
            ));
        }
        size += value.as_str().map_or(0, str::len);
    }
    size
}

fn too_long(field: &str, size: usize, causes: &mut Vec<Cause>) {
    if size > DATA_LIMIT {
        causes.push(Cause::new(
            reason::TOO_LONG,
            field,
            format!("Too long: may not be more than {DATA_LIMIT} bytes"),
        ));
    }
}

fn secret(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    use base64::Engine as _;
    let size = data_keys(new, "data", causes);
    too_long("data", size / 4 * 3, causes);
    for (key, value) in new["data"].as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        if base64::engine::general_purpose::STANDARD.decode(text).is_err() {
            // Without the value itself: it is a secret.
            causes.push(Cause::new(
                reason::INVALID,
                format!("data[{key}]"),
                "Invalid value: illegal base64 data",
            ));
        }
    }
    if let Some(old) = old {
        if new["type"] != old["type"] {
            causes.push(Cause::invalid("type", &new["type"], "field is immutable"));
        }
        immutable(new, old, &["data"], causes);
    }
    let required: &[&str] = match new["type"].as_str().unwrap_or_default() {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in required.iter().filter(|key| new["data"][**key].is_null()) {
        causes.push(Cause::required(format!("data[{key}]"), ""));
    }
}

fn config_map(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let size = data_keys(new, "data", causes) + data_keys(new, "binaryData", causes);
    too_long("", size, causes);
    if let Some(old) = old {
        immutable(new, old, &["data", "binaryData"], causes);
    }
}

fn immutable(new: &Value, old: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        causes.push(Cause::forbidden("immutable", DETAIL));
    }
    for field in fields {
        if new[*field] != old[*field] {
            causes.push(Cause::forbidden(*field, DETAIL));
        }
    }
}

fn service(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let ports: Vec<&Value> = spec["ports"].as_array().into_iter().flatten().collect();
    let headless = spec["clusterIP"] == "None" || spec["type"] == "ExternalName";
    if ports.is_empty() && !headless {
        causes.push(Cause::required("spec.ports", ""));
    }
    duplicate_names(&ports, "spec.ports", causes);
    for (index, port) in ports.iter().enumerate() {
        let number = port["port"].as_i64().unwrap_or_default(); // absent is as invalid as 0
        if !(1..=65_535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(
                format!("spec.ports[{index}].port"),
                &number.into(),
                detail,
            ));
        }
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("spec.ports[{index}].name"), ""));
        }
    }
    if let Some(old) = old
        && !headless
        && old["spec"]["type"] != "ExternalName"
        && spec["clusterIP"] != old["spec"]["clusterIP"]
    {
        let detail = "may not change once set";
        causes.push(Cause::invalid("spec.clusterIPs[0]", &spec["clusterIPs"], detail));
    }
}

/// Errors for items of a list with the same name; items without a name are ignored.
fn duplicate_names(items: &[&Value], path: &str, causes: &mut Vec<Cause>) {
    for (index, item) in items.iter().enumerate() {
        let named = item["name"].as_str().is_some_and(|name| !name.is_empty());
        if named
            && items[..index]
                .iter()
                .any(|earlier| earlier["name"] == item["name"])
        {
            causes.push(Cause::duplicate(format!("{path}[{index}].name"), &item["name"]));
        }
    }
}

/// Only a rolling update strategy may have `rollingUpdate`.
fn strategy(resource: &Resource, spec: &Value, causes: &mut Vec<Cause>) {
    let rolls = |strategy: &Value| !strategy["rollingUpdate"].is_null();
    let (strategy, update_strategy) = (&spec["strategy"], &spec["updateStrategy"]);
    match resource.kind.as_str() {
        "Deployment" if strategy["type"] == "Recreate" && rolls(strategy) => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden("spec.strategy.rollingUpdate", detail));
        }
        "StatefulSet" if update_strategy["type"] == "OnDelete" && rolls(update_strategy) => {
            let rolling = &update_strategy["rollingUpdate"];
            // The real server prints its internal type, whose fields have no JSON names.
            let printed =
                json!({"Partition": rolling["partition"], "MaxUnavailable": rolling["maxUnavailable"]});
            causes.push(Cause::invalid(
                "spec.updateStrategy.rollingUpdate",
                &printed,
                "only allowed for updateStrategy 'RollingUpdate'",
            ));
        }
        _ => {}
    }
}

fn workload(resource: &Resource, new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let labels = &spec["template"]["metadata"]["labels"];
    let selector = &spec["selector"];
    let is_empty = |part: &str| {
        selector[part].as_object().is_none_or(serde_json::Map::is_empty)
            && selector[part].as_array().is_none_or(Vec::is_empty)
    };
    if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    } else if is_empty("matchLabels") && is_empty("matchExpressions") {
        causes.push(Cause::invalid(
            "spec.selector",
            selector,
            "empty selector is invalid for deployment",
        ));
    }
    if selector.is_null() || !label_selector_matches(selector, labels) {
        let detail = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, detail));
    }
    if let Some(replicas) = spec["replicas"].as_i64().filter(|replicas| *replicas < 0) {
        causes.push(Cause::invalid(
            "spec.replicas",
            &replicas.into(),
            "must be greater than or equal to 0",
        ));
    }
    strategy(resource, spec, causes);
    pod_spec(&spec["template"]["spec"], "spec.template.spec", causes);
    let Some(old) = old else { return };
    if resource.kind != "StatefulSet" {
        if *selector != old["spec"]["selector"] {
            causes.push(Cause::invalid("spec.selector", selector, "field is immutable"));
        }
        return;
    }
    let mutable = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        fields
            .filter(|(key, _)| !mutable.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    if fixed(spec) != fixed(&old["spec"]) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        causes.push(Cause::forbidden("spec", detail));
    }
}

fn pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let containers: Vec<&Value> = spec["containers"].as_array().into_iter().flatten().collect();
    if containers.is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    for (index, container) in containers.iter().enumerate() {
        let at = format!("{path}.containers[{index}]");
        let name = container["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !is_dns_label(name) {
            let detail = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
            causes.push(Cause::invalid(format!("{at}.name"), &name.into(), detail));
        }
        if containers[..index]
            .iter()
            .any(|earlier| earlier["name"] == container["name"])
        {
            causes.push(Cause::duplicate(format!("{at}.name"), &container["name"]));
        }
        if container["image"].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("{at}.image"), ""));
        }
        let ports: Vec<&Value> = container["ports"].as_array().into_iter().flatten().collect();
        duplicate_names(&ports, &format!("{at}.ports"), causes);
        variables(container, &at, causes);
    }
    volumes(spec, path, causes);
}

/// The types of volumes, in the order in which the real server checks them.
const VOLUME_TYPES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "configMap",
    "azureFile",
    "flexVolume",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "storageos",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// A volume must have exactly one type.
fn volumes(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    for (index, volume) in volumes.enumerate() {
        let types = VOLUME_TYPES.iter().filter(|kind| !volume[**kind].is_null());
        for kind in types.skip(1) {
            causes.push(Cause::forbidden(
                format!("{path}.volumes[{index}].{kind}"),
                "may not specify more than 1 volume type",
            ));
        }
    }
}

/// A variable has a value, or a source for it.
fn variables(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let variables = container["env"].as_array().into_iter().flatten();
    for (index, variable) in variables.enumerate() {
        let sources = variable["valueFrom"].as_object().map_or(0, serde_json::Map::len);
        let valued = variable["value"].as_str().is_some_and(|value| !value.is_empty());
        let detail = match (sources, valued) {
            (0, _) | (1, false) => continue,
            (_, true) => "may not be specified when `value` is not empty",
            (_, false) => "may not have more than one field specified at a time",
        };
        causes.push(Cause::invalid(
            format!("{path}.env[{index}].valueFrom"),
            &"".into(),
            detail,
        ));
    }
}

fn role_binding(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if new["roleRef"]["name"].as_str().unwrap_or_default().is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    }
    if let Some(old) = old
        && new["roleRef"] != old["roleRef"]
    {
        causes.push(Cause::invalid(
            "roleRef",
            &new["roleRef"],
            "cannot change roleRef",
        ));
    }
}
