//! Services: defaults and cluster IPs.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::core::Core;
use crate::status::GroupResource;

/// Fills in defaults.
pub(crate) fn fill(object: &mut Value) {
    let spec = &mut object["spec"];
    let or = |parent: &mut Value, field: &str, value: Value| {
        if let Some(map) = parent.as_object_mut() {
            map.entry(field).or_insert(value);
        }
    };
    or(spec, "type", "ClusterIP".into());
    or(spec, "sessionAffinity", "None".into());
    if spec["type"] == "ExternalName" {
        return;
    }
    or(spec, "internalTrafficPolicy", "Cluster".into());
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        or(spec, "externalTrafficPolicy", "Cluster".into());
    }
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        or(port, "protocol", "TCP".into());
        let number = port["port"].clone();
        or(port, "targetPort", number);
    }
}

/// Assigns an address to a new Service, unless it has one or wants none.
pub(crate) fn assign_address(object: &mut Value, core: &Core) {
    let spec = &mut object["spec"];
    if spec["type"] == "ExternalName" || !spec.is_object() {
        return;
    }
    if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
        spec["clusterIP"] = free_address(core).into();
    }
    spec["clusterIPs"] = json!([spec["clusterIP"]]);
    spec["ipFamilies"] = json!(["IPv4"]);
    spec["ipFamilyPolicy"] = "SingleStack".into();
}

/// An unused address of 10.96.0.0/16.
fn free_address(core: &Core) -> String {
    let services = core.store.all(&GroupResource::new("", "services"), None);
    let taken: BTreeSet<String> = services
        .iter()
        .filter_map(|service| service.value()["spec"]["clusterIP"].as_str().map(str::to_owned))
        .collect();
    let start = core.random_below(65_000);
    // With more Services than addresses the first one is reused; such a network would not work anyway.
    let address = |offset: u32| {
        let number = 256 + (start + offset) % 65_000;
        format!("10.96.{}.{}", number / 256, number % 256)
    };
    (0..65_000)
        .map(address)
        .find(|address| !taken.contains(address))
        .unwrap_or_else(|| address(0))
}

/// An update need not repeat the address.
pub(crate) fn carry_over_addresses(old: &Value, new: &mut Value) {
    if new["spec"]["type"] == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if new["spec"][field].is_null() && !old["spec"][field].is_null() {
            new["spec"][field] = old["spec"][field].clone();
        }
    }
}

/// The Service through which pods find the API server.
pub(crate) fn make_kubernetes_service(core: &Arc<Core>) {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
        "status": {"loadBalancer": {}},
    });
    fill(&mut service);
    assign_address(&mut service, core);
    core.make(&GroupResource::new("", "services"), service);
}
