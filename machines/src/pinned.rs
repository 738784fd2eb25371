//! Checks whether the desired objects of `UpdateMachine` match the plan.
//!
//! The plan of a MachineSet contains templates, and the request contains the objects of one Machine: each value that
//! the desired template sets must be in the object. Fields that a provider adds, such as its id, are not compared.

use serde_json::{Value, json};

use crate::objects::{Level, Objects, Part};

/// The first value of the plan that the request lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}{field} is not what was planned")]
pub struct Deviation {
    /// The object's key in the request.
    pub object: &'static str,
    /// The path in its spec, as a JSON pointer.
    pub field: String,
}

/// The deviations of a request from the planned objects. `request` is of [`Level::Machine`].
pub fn deviation(planned: &Objects, request: &Objects) -> Option<Deviation> {
    Level::PARTS.into_iter().find_map(|part| {
        let deviation = |field: String| Deviation {
            object: request.level().key(part),
            field,
        };
        match (planned.compared(part), request.compared(part)) {
            (None, _) => None,
            (Some(_), None) => Some(deviation(String::new())),
            (Some(planned), Some(request)) => {
                let (mut planned, mut request) = (planned, request);
                if part == Part::Bootstrap {
                    comparable(&mut planned);
                    comparable(&mut request);
                }
                missing(&planned, &request).map(deviation)
            }
        }
    })
}

/// The paths of planned values that the object lacks. An empty map matches a map or an absent field.
fn missing(planned: &Value, object: &Value) -> Option<String> {
    match (planned, object) {
        (Value::Object(planned), Value::Object(object)) => planned.iter().find_map(|(name, value)| {
            let found = object.get(name).unwrap_or(&Value::Null);
            missing(value, found).map(|rest| format!("/{}{rest}", escaped(name)))
        }),
        (Value::Array(planned), Value::Array(object)) if planned.len() == object.len() => {
            let mut pairs = planned.iter().zip(object).enumerate();
            pairs.find_map(|(index, (planned, object))| {
                missing(planned, object).map(|rest| format!("/{index}{rest}"))
            })
        }
        (Value::Object(planned), Value::Null) if planned.is_empty() => None,
        _ => (planned != object).then(String::new),
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The spec of a KubeadmConfig in the form that Cluster API's control plane compares: an init configuration is
/// converted to a join configuration, and defaults are filled in.
fn comparable(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else {
        return;
    };
    let is_kubeadm = ["clusterConfiguration", "initConfiguration", "joinConfiguration"];
    if !is_kubeadm.iter().any(|name| fields.contains_key(*name)) {
        return;
    }
    let init = fields.remove("initConfiguration").unwrap_or_default();
    let carried = ["nodeRegistration", "patches", "skipPhases", "timeouts"];
    let has_content = carried
        .iter()
        .any(|name| init.get(*name).is_some_and(|value| *value != only_default(name)));
    if has_content && !fields.contains_key("joinConfiguration") {
        let mut join = serde_json::Map::new();
        for name in carried {
            if let Some(value) = init.get(name) {
                join.insert(name.to_owned(), value.clone());
            }
        }
        let endpoint = init.get("localAPIEndpoint").cloned();
        let control_plane =
            endpoint.map_or_else(|| json!({}), |endpoint| json!({"localAPIEndpoint": endpoint}));
        join.insert("controlPlane".to_owned(), control_plane);
        fields.insert("joinConfiguration".to_owned(), Value::Object(join));
    }
    fields.entry("format").or_insert_with(|| json!("cloud-config"));
    if let Some(Value::Object(join)) = fields.get_mut("joinConfiguration") {
        join.remove("discovery");
        let node = join.entry("nodeRegistration").or_insert_with(|| json!({}));
        if let Some(node) = node.as_object_mut() {
            node.entry("imagePullPolicy")
                .or_insert_with(|| json!("IfNotPresent"));
        }
    }
}

/// The value that Cluster API fills into an empty init configuration.
fn only_default(name: &str) -> Value {
    match name {
        "nodeRegistration" => json!({"imagePullPolicy": "IfNotPresent"}),
        _ => Value::Null,
    }
}
