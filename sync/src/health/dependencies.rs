//! Health rules for dependencies of workloads: Service, PersistentVolumeClaim, CustomResourceDefinition.

use serde_json::Value;

use super::{
    Health,
    fields::{conditions, string_at},
};

pub(super) fn service(object: &Value) -> Health {
    let balanced = string_at(object, "/spec/type") == Some("LoadBalancer");
    let address = string_at(object, "/spec/clusterIP").unwrap_or_default();
    if balanced && address.is_empty() {
        Health::in_progress("NoIPAssigned", "ClusterIP not set. Service type: LoadBalancer")
    } else {
        Health::current("Service is ready")
    }
}

pub(super) fn claim(object: &Value) -> Health {
    match string_at(object, "/status/phase").unwrap_or("unknown") {
        "Bound" => Health::current("PVC is Bound"),
        phase => Health::in_progress("NotBound", format!("PVC is not Bound. phase: {phase}")),
    }
}

pub(super) fn definition(object: &Value) -> Health {
    conditions(object)
        .find_map(|condition| match (condition.kind, condition.status) {
            ("NamesAccepted", "False") => Some(Health::stalled(condition.reason, condition.message)),
            ("Established", "False") if condition.reason != "Installing" => {
                Some(Health::stalled(condition.reason, condition.message))
            }
            ("Established", "True") => Some(Health::current("CRD is established")),
            _ => None,
        })
        .unwrap_or_else(|| Health::in_progress("Installing", "Install in progress"))
}
