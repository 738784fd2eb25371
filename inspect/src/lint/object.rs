//! Validates one object: what the API server would refuse or drop, and what muster does not support.

use std::collections::BTreeMap;

use kube::Resource as _;
use muster_api::{
    BootstrapModule, Module, RolloutWindow, cluster, crds,
    kind::GROUP,
    labels::{annotation, label},
    module::{ModuleKind, ModuleObject, ModuleSpec},
    node::{
        NodeModule,
        module::NodeModuleSpec,
        validate::{self as validate_nodes, InvalidField},
    },
    validate::{self, InsecureSources, Invalid},
};
use muster_apiserver::schema::{Changed, Schema};
use muster_health::Expressions;
use muster_sync::{health::evidence::is_custom, plan, yaml::Document};
use muster_windows::Window;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    field_position,
    finding::{Code, Finding},
    words::Problem,
};

/// The definitions of muster's kinds, by `apiVersion` and kind.
pub struct Lens(BTreeMap<(String, String), Definition>);

/// The schema of a kind, and its text.
struct Definition {
    schema: Schema,
    text: Value,
}

/// Why an API server does not accept an object as it is.
pub struct Refused {
    /// Fields that it drops, with paths from `metadata` or `spec`.
    pub unknown: Vec<Problem>,
    /// Validation errors.
    pub causes: Vec<Problem>,
}

/// The result for a document.
pub struct DocumentResult {
    /// Whether it is an object of a fleet.
    pub is_of_the_fleet: bool,
    /// Findings about the object alone.
    pub findings: Vec<Finding>,
    /// The object, for checks together with others.
    pub object: Object,
}

/// An object for checks together with others.
pub enum Object {
    /// A valid module of either kind.
    Module(Box<ValidModule>),
    /// A Cluster.
    Cluster(Identity, BTreeMap<String, String>),
    /// A valid NodeModule.
    NodeModule(Identity, Box<NodeModuleSpec>),
    /// Another kind of muster's, or an invalid module.
    Other(Identity),
    /// A custom resource of this group.
    Custom(String, Identity),
    /// The definition of a custom resource.
    Definition(Defined),
    /// Not an object of a fleet.
    None,
}

/// The kind that a definition defines.
pub struct Defined {
    /// API group of the kind.
    pub group: String,
    /// Name of the kind.
    pub kind: String,
    /// Whether its status has observedGeneration.
    pub observes: bool,
}

/// Kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Kind, such as `Module`.
    pub kind: String,
    /// Namespace; empty if it is not set.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// A valid module.
pub struct ValidModule {
    /// Kind, namespace and name.
    pub identity: Identity,
    /// Module or BootstrapModule.
    pub kind: ModuleKind,
    /// Spec with defaults.
    pub spec: ModuleSpec,
}

impl Identity {
    fn of(object: &Value) -> Self {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let text = |pointer| text(pointer).unwrap_or_default().to_owned();
        Self {
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }

    /// The name in kubectl's form.
    pub fn address(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }
}

impl Default for Lens {
    fn default() -> Self {
        Self::new()
    }
}

impl Lens {
    /// Uses the definitions of this command.
    pub fn new() -> Self {
        let mut schemas = BTreeMap::new();
        let all = crds::management().into_iter().chain(crds::downstream());
        for definition in all.chain(crds::nodes()) {
            let kind = &definition.spec.names.kind;
            for version in &definition.spec.versions {
                let schema = version
                    .schema
                    .as_ref()
                    .and_then(|schema| schema.open_api_v3_schema.as_ref());
                let schema = schema.and_then(|schema| serde_json::to_value(schema).ok());
                // A test applies each of these definitions to an API server.
                let parsed = schema.and_then(|text| Some((Schema::parse(&text).ok()?, text)));
                if let Some((schema, text)) = parsed {
                    let definition = Definition { schema, text };
                    schemas.insert((format!("{GROUP}/{}", version.name), kind.clone()), definition);
                }
            }
        }
        Self(schemas)
    }

    /// What an API server would not accept. Drops unknown fields from `value`, and sets defaults. `None` if the kind is
    /// unknown.
    pub fn refused(&self, api_version: &str, kind: &str, value: &mut Value) -> Option<Refused> {
        let Definition { schema, text } = self.0.get(&(api_version.to_owned(), kind.to_owned()))?;
        let unknown = schema.prune(value, &Changed::Whole);
        schema.default(value, &Changed::Whole);
        let mut causes = schema.validate(value, None, &Changed::Whole);
        // Its text does not help to fix the others.
        causes.retain(|cause| !cause.is_incomplete_check());
        let unknown = unknown.into_iter().map(|path| Problem::unknown(path, text));
        let causes = causes.iter().map(|cause| Problem::of(cause, value, text));
        Some(Refused {
            unknown: unknown.collect(),
            causes: causes.collect(),
        })
    }

    /// Validates a document.
    pub fn validate(&self, document: &Document, value: Value) -> DocumentResult {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let identity = Identity::of(&value);
        match version.split_once('/') {
            Some((GROUP, _)) => self.ours(document, value, &(version, kind), identity),
            Some((cluster::GROUP, _)) if kind == "Cluster" => {
                let labels = serde_json::from_value(value["metadata"]["labels"].clone());
                DocumentResult {
                    is_of_the_fleet: true,
                    findings: Vec::new(),
                    object: Object::Cluster(identity, labels.unwrap_or_default()), // labels that are not a map match nothing
                }
            }
            None if version == "v1" && kind == "Secret" => DocumentResult {
                is_of_the_fleet: false,
                findings: secret(document, &value, &identity).into_iter().collect(),
                object: Object::None,
            },
            group => DocumentResult {
                is_of_the_fleet: false,
                findings: by_hand(document, &value, &identity).into_iter().collect(),
                object: synced(group.map_or("", |(group, _)| group), &value, identity),
            },
        }
    }

    fn ours(
        &self,
        document: &Document,
        mut value: Value,
        gvk: &(String, String),
        identity: Identity,
    ) -> DocumentResult {
        let address = identity.address();
        let finding = |code, field: &str, message| Finding::about(code, document, &address, field, message);
        if plan::is_plan(&value) {
            // Validated with the files of its directory.
            return DocumentResult {
                is_of_the_fleet: true,
                findings: Vec::new(),
                object: Object::None,
            };
        }
        let Some(refused) = self.refused(&gvk.0, &gvk.1, &mut value) else {
            let (version, kind) = gvk;
            let message = format!("{version} has no kind {kind:?}");
            return DocumentResult {
                is_of_the_fleet: true,
                findings: vec![finding(Code::UnknownKind, "kind", message)],
                object: Object::None,
            };
        };
        let Refused { unknown, causes } = refused;
        let unknown = unknown.iter();
        let mut findings: Vec<Finding> = unknown
            .map(|problem| finding(Code::UnknownField, &problem.field, problem.to_string()))
            .collect();
        let is_known = |field: &str| !field_position::has_variable(&document.root, field);
        findings.extend(
            causes
                .iter()
                .filter(|cause| is_known(&cause.field))
                .map(|cause| finding(Code::Definition, &cause.field, cause.to_string())),
        );
        let is_allowed = causes.is_empty();
        if is_allowed && gvk.1 == RolloutWindow::kind(&()) {
            let window = Window::read(&value);
            let errors = window.errors().iter().filter(|error| is_known(&error.field));
            findings.extend(
                errors.map(|error| finding(Code::Impossible, &error.field, error.problem.to_string())),
            );
        }
        if is_allowed && gvk.1 == NodeModule::kind(&()) {
            let (problems, object) = of_nodes(&value, identity);
            let problems = problems.iter().filter(|problem| is_known(&problem.field));
            findings.extend(
                problems.map(|found| finding(Code::Impossible, &found.field, found.problem.to_string())),
            );
            return DocumentResult {
                is_of_the_fleet: true,
                findings,
                object,
            };
        }
        let module = match gvk.1.as_str() {
            "Module" => parsed::<Module>(&value),
            "BootstrapModule" => parsed::<BootstrapModule>(&value),
            _ => None,
        };
        let object = match module.filter(|_| is_allowed) {
            None => Object::Other(identity),
            Some((kind, spec)) => {
                let meant = meant(&identity.name, &spec);
                let meant = meant.into_iter().filter(|(_, problem)| is_known(&problem.field));
                findings
                    .extend(meant.map(|(code, problem)| finding(code, &problem.field, problem.to_string())));
                let unreadable = unreadable_expressions(&spec).into_iter();
                let unreadable = unreadable.filter(|(field, _)| is_known(field));
                findings
                    .extend(unreadable.map(|(field, message)| finding(Code::Expression, &field, message)));
                Object::Module(Box::new(ValidModule { identity, kind, spec }))
            }
        };
        DocumentResult {
            is_of_the_fleet: true,
            findings,
            object,
        }
    }
}

/// Validates a NodeModule.
fn of_nodes(value: &Value, identity: Identity) -> (Vec<InvalidField>, Object) {
    // A value that only the type rejects is also rejected by the API server.
    let Ok(module) = serde_json::from_value::<NodeModule>(value.clone()) else {
        return (Vec::new(), Object::Other(identity));
    };
    let problems = validate_nodes::validate_node_module(&identity.name, &module.spec);
    (problems, Object::NodeModule(identity, Box::new(module.spec)))
}

/// Objects that are applied to clusters, if they say something about health evidence.
fn synced(group: &str, value: &Value, identity: Identity) -> Object {
    if group == "apiextensions.k8s.io" && identity.kind == "CustomResourceDefinition" {
        let text = |pointer| value.pointer(pointer).and_then(Value::as_str);
        let text = |pointer| text(pointer).unwrap_or_default().to_owned();
        return Object::Definition(Defined {
            group: text("/spec/group"),
            kind: text("/spec/names/kind"),
            observes: value["spec"]["versions"]
                .to_string()
                .contains("\"observedGeneration\""),
        });
    }
    // Groups of custom resources have a dot. These are known to report observedGeneration.
    let reports = [cluster::GROUP, "toolkit.fluxcd.io"]
        .iter()
        .any(|known| group.ends_with(known));
    if group.contains('.') && is_custom(group) && !reports && !identity.name.is_empty() {
        Object::Custom(group.to_owned(), identity)
    } else {
        Object::None
    }
}

/// A workload that counts as healthy before its pods run the new version.
fn by_hand(document: &Document, value: &Value, identity: &Identity) -> Option<Finding> {
    let of_apps = value["apiVersion"] == "apps/v1" && matches!(&*identity.kind, "StatefulSet" | "DaemonSet");
    let waits = value["metadata"]["annotations"][annotation::WAIT_FOR_PODS] == "true";
    let field = "spec.updateStrategy.type";
    let on_delete = value["spec"]["updateStrategy"]["type"] == "OnDelete";
    let address = identity.address();
    let message = format!("{address} counts as healthy before its pods are replaced by hand");
    let in_zones =
        identity.kind == "StatefulSet" && value["metadata"]["labels"][label::ROLLOUT_GROUP].is_string();
    (of_apps && on_delete && !waits && !in_zones)
        .then(|| Finding::about(Code::OnDelete, document, &address, field, message))
}

fn parsed<K: ModuleObject + DeserializeOwned>(value: &Value) -> Option<(ModuleKind, ModuleSpec)> {
    // A value that only the type rejects is also rejected by the API server.
    let object: K = serde_json::from_value(value.clone()).ok()?;
    Some((K::KIND, object.spec().clone()))
}

/// What the definition allows, and muster does not support, or not by default.
fn meant(name: &str, spec: &ModuleSpec) -> Vec<(Code, Invalid)> {
    let impossible = validate::validate_module(name, spec, InsecureSources::Allowed);
    let mut refused = validate::validate_module(name, spec, InsecureSources::Refused);
    refused.retain(|problem| !impossible.contains(problem));
    let impossible = impossible.into_iter().map(|problem| (Code::Impossible, problem));
    impossible
        .chain(refused.into_iter().map(|problem| (Code::Insecure, problem)))
        .collect()
}

/// Health expressions that no agent could evaluate: the field of each, and why.
fn unreadable_expressions(spec: &ModuleSpec) -> Vec<(String, String)> {
    let each = spec.sync.package.health_expressions.iter().enumerate();
    let unreadable = each.filter_map(|(index, of)| {
        let parsed = Expressions::parse(&of.current, of.in_progress.as_deref(), of.failed.as_deref());
        let error = parsed.err()?;
        let field = format!("spec.sync.package.healthExpressions[{index}].{}", error.field);
        let message = format!("{} {}: {error}", of.api_version, of.kind);
        Some((field, message))
    });
    unreadable.collect()
}

/// A Secret whose values are readable in the repository.
fn secret(document: &Document, value: &Value, identity: &Identity) -> Option<Finding> {
    let is_encrypted = value.get("sops").is_some();
    let field = ["data", "stringData"]
        .into_iter()
        .find(|field| value[field].as_object().is_some_and(|values| !values.is_empty()))?;
    let message = format!("{} has plain values that everyone can read", identity.address());
    (!is_encrypted).then(|| Finding::about(Code::PlainSecret, document, &identity.address(), field, message))
}
