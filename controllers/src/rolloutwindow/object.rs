//! A RolloutWindow as stored, even if its content is invalid.

use std::borrow::Cow;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use muster_api::RolloutWindow;
use muster_windows::Window;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::runtime::isolated;

/// A RolloutWindow with an arbitrary spec and status: one that was stored under another definition must close what it
/// selects, but a typed watch would drop it.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredWindow {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The spec as unparsed JSON.
    #[serde(default)]
    pub spec: Value,
    /// The status as unparsed JSON, if there is one.
    #[serde(default)]
    pub status: Option<Value>,
}

impl StoredWindow {
    /// Parses the window for evaluation.
    pub fn read(&self) -> Window {
        let window =
            |spec: &Value| Window::read(&json!({ "metadata": { "name": self.metadata.name }, "spec": spec }));
        isolated(|| window(&self.spec)).unwrap_or_else(|panicked| {
            panicked.log("reading a RolloutWindow");
            window(&Value::Null)
        })
    }
}

impl Resource for StoredWindow {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        RolloutWindow::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        RolloutWindow::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        RolloutWindow::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        RolloutWindow::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
