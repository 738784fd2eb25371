//! Plan files: documents of kind Plan, which are never applied.

/// The `apiVersion` of a Plan.
pub const API_VERSION: &str = "fleet.muster.dev/v1alpha1";
/// The `kind` of a Plan.
pub const KIND: &str = "Plan";

/// How documents of kind Plan are handled. They are never applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plans {
    /// They are an error: a Module must reference them.
    #[default]
    Refused,
    /// They are skipped, where it is unknown whether a Module references them.
    LeftOut,
}

/// Whether an object is a Plan, which is never applied.
pub fn is_plan(object: &serde_json::Value) -> bool {
    (object["apiVersion"].as_str(), object["kind"].as_str()) == (Some(API_VERSION), Some(KIND))
}

/// Whether a document is a Plan.
pub(crate) fn is_plan_document(document: &crate::yaml::Document) -> bool {
    let text = |field| document.root.get(field).and_then(|node| node.text());
    (text("apiVersion"), text("kind")) == (Some(API_VERSION), Some(KIND))
}
