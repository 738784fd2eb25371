//! Documents of kind Plan, which are never applied.

/// What a file of plans says that it is.
pub const API_VERSION: &str = "fleet.muster.dev/v1alpha1";
/// The kind of a file of plans.
pub const KIND: &str = "Plan";

/// What becomes of documents of kind Plan, which are never applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plans {
    /// They are refused: a Module has to name them.
    #[default]
    Refused,
    /// They are left out, where no Module is known that could name them.
    LeftOut,
}

/// Whether an object is a file of plans, which is never applied.
pub fn is_plan(object: &serde_json::Value) -> bool {
    (object["apiVersion"].as_str(), object["kind"].as_str()) == (Some(API_VERSION), Some(KIND))
}

/// Whether a document is a file of plans.
pub(crate) fn is_plan_document(document: &crate::yaml::Document) -> bool {
    let text = |field| document.root.get(field).and_then(|node| node.text());
    (text("apiVersion"), text("kind")) == (Some(API_VERSION), Some(KIND))
}
