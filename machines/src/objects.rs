//! The three objects of a request, at the level of one Machine or of a MachineSet.

use muster_api::digest::{DIGEST_PREFIX, canonical, sha256_hex};
use serde_json::{Map, Value, json};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One Machine of a control plane (`CanUpdateMachine`), and every `UpdateMachine`.
    Machine,
    /// All Machines of an old MachineSet (`CanUpdateMachineSet`).
    MachineSet,
}

/// One of the three objects of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The Machine or MachineSet.
    Own,
    /// The bootstrap config, or its template.
    Bootstrap,
    /// The infrastructure machine, or its template.
    Infrastructure,
}

/// Why a request cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The body is not JSON, or a field has another type.
    #[error("the request cannot be read: {0}")]
    Json(String),
    /// A required object is missing.
    #[error("{0} is missing or is not an object")]
    Missing(String),
}

/// Fields of a Machine's spec that Cluster API itself changes in place, so they are not compared.
const IGNORED: [&str; 8] = [
    "clusterName",
    "bootstrap",
    "infrastructureRef",
    "providerID",
    "minReadySeconds",
    "readinessGates",
    "taints",
    "deletion",
];

/// Fields of `deletion` that are not compared.
const IGNORED_DELETION: [&str; 3] = [
    "nodeDrainTimeoutSeconds",
    "nodeVolumeDetachTimeoutSeconds",
    "nodeDeletionTimeoutSeconds",
];

/// Fields of a Machine's spec that are compared; a patch can add them if they are absent.
const COMPARED: [&str; 2] = ["version", "failureDomain"];

impl Level {
    /// The objects, in the order in which differences are reported.
    pub const PARTS: [Part; 3] = [Part::Own, Part::Bootstrap, Part::Infrastructure];

    /// The key of the object in requests.
    pub const fn key(self, part: Part) -> &'static str {
        match (self, part) {
            (Self::Machine, Part::Own) => "machine",
            (Self::Machine, Part::Bootstrap) => "bootstrapConfig",
            (Self::Machine, Part::Infrastructure) => "infrastructureMachine",
            (Self::MachineSet, Part::Own) => "machineSet",
            (Self::MachineSet, Part::Bootstrap) => "bootstrapConfigTemplate",
            (Self::MachineSet, Part::Infrastructure) => "infrastructureMachineTemplate",
        }
    }

    /// The key of the object's patch in responses.
    pub const fn patch_key(self, part: Part) -> &'static str {
        match (self, part) {
            (Self::Machine, Part::Own) => "machinePatch",
            (Self::Machine, Part::Bootstrap) => "bootstrapConfigPatch",
            (Self::Machine, Part::Infrastructure) => "infrastructureMachinePatch",
            (Self::MachineSet, Part::Own) => "machineSetPatch",
            (Self::MachineSet, Part::Bootstrap) => "bootstrapConfigTemplatePatch",
            (Self::MachineSet, Part::Infrastructure) => "infrastructureMachineTemplatePatch",
        }
    }

    /// The scope of an object that is compared and can be patched, as a JSON pointer.
    pub const fn scope(self) -> &'static str {
        match self {
            Self::Machine => "/spec",
            Self::MachineSet => "/spec/template/spec",
        }
    }
}

/// The objects of one side of a request, reduced to apiVersion, kind, relevant metadata and spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    level: Level,
    own: Value,
    bootstrap: Option<Value>,
    infrastructure: Value,
}

impl Objects {
    /// Reads `current` or `desired` of a request.
    pub fn read(level: Level, side: &Value) -> Result<Self, Malformed> {
        let object = |part: Part| {
            let found = side.get(level.key(part)).filter(|value| !value.is_null())?;
            Some(found.as_object().map(reduced).ok_or_else(|| missing(level, part)))
        };
        let required = |part: Part| object(part).unwrap_or_else(|| Err(missing(level, part)));
        Ok(Self {
            level,
            own: required(Part::Own)?,
            bootstrap: object(Part::Bootstrap).transpose()?,
            infrastructure: required(Part::Infrastructure)?,
        })
    }

    /// The level of the objects.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// One of the objects; only the bootstrap config may be absent.
    pub const fn get(&self, part: Part) -> Option<&Value> {
        match part {
            Part::Own => Some(&self.own),
            Part::Bootstrap => self.bootstrap.as_ref(),
            Part::Infrastructure => Some(&self.infrastructure),
        }
    }

    /// Namespace and name of the Machine or MachineSet.
    pub fn name(&self) -> (&str, &str) {
        let text = |key: &str| self.own["metadata"][key].as_str().unwrap_or_default();
        (text("namespace"), text("name"))
    }

    /// The value of an annotation of the Machine or MachineSet.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.own["metadata"]["annotations"][key].as_str()
    }

    /// The value of a label of the Machine or MachineSet.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.own["metadata"]["labels"][key].as_str()
    }

    /// The objects as a side of a request.
    pub fn side(&self) -> Value {
        let parts = Level::PARTS.into_iter();
        let entries =
            parts.filter_map(|part| Some((self.level.key(part).to_owned(), self.get(part)?.clone())));
        Value::Object(entries.collect())
    }

    /// Whether an object differs from the other side within the compared scope.
    pub fn differs(&self, other: &Self, part: Part) -> bool {
        self.compared(part) != other.compared(part)
    }

    /// Digest of the compared scope: `sha256:` and hexadecimal digits. Equal objects have equal digests, whatever their
    /// names.
    pub fn digest(&self) -> String {
        let parts = Level::PARTS.map(|part| canonical(&json!(self.compared(part))));
        let parts = parts.each_ref().map(String::as_str);
        format!("{DIGEST_PREFIX}{}", sha256_hex(&parts))
    }

    /// The compared scope of an object: its spec, or that of its template, without the fields that Cluster API ignores.
    pub(crate) fn compared(&self, part: Part) -> Option<Value> {
        let object = self.get(part)?;
        let mut scope = object.pointer(self.level.scope()).cloned().unwrap_or_default();
        if let (Part::Own, Some(fields)) = (part, scope.as_object_mut()) {
            without_ignored(fields);
        }
        Some(scope)
    }

    /// Takes over the scope of a patched object; false if nothing changed. Patches outside of the scope are dropped,
    /// and so is a field of a Machine's spec that neither side has and that no version of Cluster API compares: Cluster
    /// API would lose it.
    pub(crate) fn take(&mut self, part: Part, patched: &Value, desired: &Self) -> bool {
        let scope = self.level.scope();
        let Some(mut after) = patched.pointer(scope).cloned() else {
            return false;
        };
        let known = |name: &str| {
            let has = |side: &Self| {
                side.own
                    .pointer(scope)
                    .is_some_and(|spec| spec.get(name).is_some())
            };
            COMPARED.contains(&name) || IGNORED.contains(&name) || has(self) || has(desired)
        };
        if let (Part::Own, Some(fields)) = (part, after.as_object_mut()) {
            fields.retain(|name, _| known(name));
        }
        let object = match part {
            Part::Own => Some(&mut self.own),
            Part::Bootstrap => self.bootstrap.as_mut(),
            Part::Infrastructure => Some(&mut self.infrastructure),
        };
        match object.and_then(|object| object.pointer_mut(scope)) {
            Some(before) if *before != after => {
                *before = after;
                true
            }
            _ => false,
        }
    }
}

fn missing(level: Level, part: Part) -> Malformed {
    Malformed::Missing(level.key(part).to_owned())
}

/// As Cluster API sends objects: without status, owner references and versions.
fn reduced(object: &Map<String, Value>) -> Value {
    let kept = |from: &Map<String, Value>, names: &[&str]| -> Map<String, Value> {
        let entries = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), from.get(*name)?.clone())));
        entries.collect()
    };
    let mut reduced = kept(object, &["apiVersion", "kind", "metadata", "spec"]);
    if let Some(Value::Object(metadata)) = reduced.get_mut("metadata") {
        *metadata = kept(metadata, &["name", "namespace", "labels", "annotations"]);
    }
    Value::Object(reduced)
}

fn without_ignored(spec: &mut Map<String, Value>) {
    let deletion = spec.remove("deletion");
    spec.retain(|name, _| !IGNORED.contains(&name.as_str()));
    if let Some(Value::Object(mut deletion)) = deletion {
        deletion.retain(|name, _| !IGNORED_DELETION.contains(&name.as_str()));
        if !deletion.is_empty() {
            spec.insert("deletion".to_owned(), Value::Object(deletion));
        }
    }
}
