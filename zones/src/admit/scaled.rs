//! Objects with replicas, as contained in admission reviews.

use std::collections::BTreeMap;

use serde_json::Value;

use super::review::{Response, missing};
use crate::scale::preparation::Preparation;

/// Kinds of `apps/v1` without replicas.
const WITHOUT_REPLICAS: [&str; 2] = ["DaemonSet", "ControllerRevision"];

/// A kind with replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` ReplicaSet.
    ReplicaSet,
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `autoscaling/v1` Scale: the subresource of the other kinds.
    Scale,
}

impl Kind {
    /// Name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::Scale => "Scale",
        }
    }

    /// Group and version of the kind.
    pub fn api_version(self) -> &'static str {
        if self == Self::Scale {
            "autoscaling/v1"
        } else {
            "apps/v1"
        }
    }
}

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRead {
    /// The object is not of a known kind.
    Kind(String),
    /// The kind has no replicas.
    Replicas(String),
}

impl NotRead {
    /// The human-readable message.
    pub fn message(&self) -> &str {
        match self {
            Self::Kind(message) | Self::Replicas(message) => message,
        }
    }
}

/// The fields that are read from an object with replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Kind of the object.
    pub kind: Kind,
    /// `metadata.uid`; empty if absent.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.replicas`; 0 if absent in a Scale.
    pub replicas: Option<i32>,
    /// `spec.serviceName`.
    pub service: String,
    /// `spec.ordinals.start`.
    pub start: u32,
}

impl Scaled {
    /// Reads an object of any supported kind.
    pub fn parse(object: Option<&Value>) -> Result<Self, NotRead> {
        let Some(object) = object else {
            return Err(NotRead::Kind(missing("Kind", "")));
        };
        Self::of(kind(object)?, object)
    }

    /// Reads an object whose kind is known from the endpoint that it was read from; the object itself may omit its
    /// kind.
    pub fn of(kind: Kind, object: &Value) -> Result<Self, NotRead> {
        let replicas = match &object["spec"]["replicas"] {
            Value::Null => (kind == Kind::Scale).then_some(0),
            value => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                Some(number.ok_or_else(|| NotRead::Kind(format!("spec.replicas is not a number: {value}")))?)
            }
        };
        let metadata = &object["metadata"];
        let start = object["spec"]["ordinals"]["start"].as_u64();
        Ok(Self {
            kind,
            uid: text(&metadata["uid"]),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            labels: texts(&metadata["labels"]),
            annotations: texts(&metadata["annotations"]),
            replicas,
            service: text(&object["spec"]["serviceName"]),
            start: start
                .and_then(|start| u32::try_from(start).ok())
                .unwrap_or_default(),
        })
    }

    /// How the pods of a StatefulSet are prepared, if they are; an error says what is missing.
    pub fn preparation(&self) -> Option<Result<Preparation, String>> {
        Preparation::of(&self.labels, &self.annotations, &self.service)
    }
}

fn kind(object: &Value) -> Result<Kind, NotRead> {
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    if kind.is_empty() {
        return Err(NotRead::Kind(missing("Kind", &object.to_string())));
    }
    if api_version.is_empty() {
        return Err(NotRead::Kind(missing("apiVersion", &object.to_string())));
    }
    let kinds = [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::Scale];
    let known = kinds
        .into_iter()
        .find(|known| known.as_str() == kind && known.api_version() == api_version);
    if let Some(known) = known {
        return Ok(known);
    }
    if api_version == "apps/v1" && WITHOUT_REPLICAS.contains(&kind.as_str()) {
        return Err(NotRead::Replicas(unsupported(&api_version, &kind)));
    }
    Err(NotRead::Kind(format!(
        "no kind {kind:?} is registered for version {api_version:?}"
    )))
}

/// rollout-operator's text, which contains the name of its Go type.
pub fn unsupported(api_version: &str, kind: &str) -> String {
    format!("unsupported type {api_version}, Kind={kind} (go type *v1.{kind})")
}

/// `None` if the number of replicas is reduced; otherwise the immediate answer.
pub fn replicas_change(old: Option<i32>, new: Option<i32>) -> Option<Response> {
    match (old, new) {
        (None, None) => Some(Response::allow()),
        (None, Some(_)) | (Some(_), None) => Some(Response::warn(
            "old/new replicas is nil, allowing the change".to_owned(),
        )),
        (Some(old), Some(new)) => (old <= new).then(Response::allow),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
