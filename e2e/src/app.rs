//! Small applications, each with a Deployment and a ConfigMap, and helpers to read the status of objects.

use serde_json::Value;

/// The namespace of all small applications.
pub const APPS: &str = "default";
/// Whether the pods of a version become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// The pods become ready.
    Good,
    /// The image cannot be pulled.
    Bad,
}

/// The manifests of an application at a version. The progress deadline is short, so that a failure shows soon.
pub fn manifests(app: &str, version: &str, quality: Quality) -> String {
    let image = match quality {
        Quality::Good => format!("example.com/{app}:{version}"),
        Quality::Bad => format!("example.com/{app}-bad:{version}"),
    };
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {app}, namespace: {APPS}}}\ndata: {{version: {version}, cluster: \"${{CLUSTER}}\"}}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {app}, namespace: {APPS}}}\nspec:\n  replicas: 1\n  progressDeadlineSeconds: 3\n  \
         selector: {{matchLabels: {{app: {app}}}}}\n  template:\n    metadata: {{labels: {{app: {app}}}}}\n    spec:\n      containers: [{{name: {app}, image: {image}}}]\n"
    )
}

/// The tag of the first container's image of a Deployment.
pub fn image_tag(deployment: &Value) -> Option<&str> {
    let image = deployment
        .pointer("/spec/template/spec/containers/0/image")?
        .as_str()?;
    image.rsplit_once(':').map(|(_, tag)| tag)
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether an object's Ready condition is true.
pub fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// Whether an object's status is up to date with its spec.
pub fn is_current(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// A module's status as text, without the rollout memory.
pub fn status_text(module: &Value) -> String {
    let mut status = module["status"].clone();
    if let Some(status) = status.as_object_mut() {
        status.remove("rollout");
    }
    format!("{status:#}")
}
