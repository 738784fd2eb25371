//! Schemas of foreign types, and the limits that schemas and validation share.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// The longest object name (a DNS subdomain), in bytes.
pub const MAX_NAME: usize = 253;
/// The longest DNS label, label key name or label value, in bytes.
pub const MAX_LABEL: usize = 63;
/// The longest label key: a DNS subdomain, a slash, a name.
pub const MAX_LABEL_KEY: usize = 317;
/// The longest `apiVersion`: a group, a slash, a version.
pub const MAX_API_VERSION: usize = 317;
/// The longest URL of a git repository, in bytes.
pub const MAX_URL: usize = 2048;
/// The longest path inside a git repository, in bytes.
pub const MAX_PATH: usize = 1024;
/// The longest tag name, in bytes.
pub const MAX_TAG: usize = 244;
/// The longest value of a binding or a substitution, in bytes.
pub const MAX_VALUE: usize = 4096;
/// Maximum number of bindings, values or substitutions of one sync.
pub const MAX_VALUES: usize = 64;
/// Maximum number of syncs in one assemblage.
pub const MAX_SYNCS: usize = 256;
/// The longest message of a row or of an attention entry, in bytes.
pub const MAX_MESSAGE: usize = 512;
/// The longest summary of a plan run: the plan's name, phase and step names, counts and a state.
pub const MAX_PLAN_LINE: usize = 256;
/// Maximum number of clusters in `status.attention`.
pub const MAX_ATTENTION: usize = 20;
/// Maximum number of reasons in `status.reasons`.
pub const MAX_REASONS: usize = 64;
/// Maximum size of `status.reasons` as JSON, in bytes: 32 KiB.
pub const MAX_REASONS_SIZE: usize = 32_768;
/// Maximum number of features that an agent may report.
pub const MAX_FEATURES: usize = 64;
/// Maximum size of the engine's encoded state, in bytes: 160 KiB.
pub const MAX_MEMORY: usize = 163_840;
/// Maximum size of one row of an assemblage as JSON, in bytes: 32 KiB.
pub const MAX_ROW: usize = 32_768;
/// Maximum size of one assemblage as JSON, in bytes: 768 KiB.
pub const MAX_ASSEMBLAGE: usize = 786_432;
/// The largest token: above it, tools that read JSON numbers as floating point could not distinguish adjacent tokens.
pub const MAX_TOKEN: u64 = 9_007_199_254_740_991;
/// The longest list of ignore patterns, in bytes.
pub const MAX_IGNORE: usize = 4096;
/// The longest patch, in bytes.
pub const MAX_PATCH: usize = 16_384;
/// The longest tag of an OCI artifact, in bytes.
pub const MAX_OCI_TAG: usize = 128;
/// Maximum number of conditions of an object.
pub const MAX_CONDITIONS: usize = 16;

/// Names of environment variables, as Flux's variable substitution accepts them; also used for bindings.
pub const VARIABLE: &str = "^[_A-Za-z][_A-Za-z0-9]*$";
/// DNS labels.
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// DNS subdomains: valid names of most Kubernetes objects.
pub const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Full git object names: SHA-1 or SHA-256, lower case.
pub const COMMIT: &str = "^([0-9a-f]{40}|[0-9a-f]{64})$";

/// Tags of OCI artifacts.
pub const OCI_TAG: &str = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$";
/// Digests of OCI artifacts.
pub const OCI_DIGEST: &str = "^sha256:[0-9a-f]{64}$";

/// `status.conditions`: a list map by type.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Conditions of the object: Ready is always present, the others only while they are true.",
        "type": "array",
        "maxItems": MAX_CONDITIONS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "description": "A condition of the object.",
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "description": "Type of the condition.",
                    "type": "string", "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "description": "Status of the condition: True, False or Unknown.",
                    "type": "string", "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "description": "The metadata.generation that the condition was set for.",
                    "type": "integer", "format": "int64", "minimum": 0,
                },
                "lastTransitionTime": {
                    "description": "When the status last changed from one value to another.",
                    "type": "string", "format": "date-time",
                },
                "reason": {
                    "description": "Machine-readable reason, in CamelCase.",
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "Human-readable details: what, where, since when, and what to do.",
                    "type": "string", "maxLength": 32_768,
                },
            },
        },
    })
}

/// A label selector. Operators are not an enum in the schema: the Module's own status reports an invalid one.
pub fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels that must have exactly these values.",
                "type": "object", "maxProperties": MAX_VALUES,
                "additionalProperties": { "type": "string", "maxLength": MAX_LABEL },
            },
            "matchExpressions": {
                "description": "Further requirements; all must match.",
                "type": "array", "maxItems": 32, "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "Label key that the requirement applies to.", "type": "string", "maxLength": MAX_LABEL_KEY },
                        "operator": { "description": "Operator, one of In, NotIn, Exists and DoesNotExist.", "type": "string", "maxLength": 32 },
                        "values": {
                            "description": "Values for In and NotIn; must be empty for Exists and DoesNotExist.",
                            "type": "array", "maxItems": 256, "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string", "maxLength": MAX_LABEL },
                        },
                    },
                },
            },
        },
    })
}

/// Values by variable name.
pub fn variables(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_VALUES,
        "additionalProperties": { "type": "string", "maxLength": MAX_VALUE },
        "x-kubernetes-validations": [{
            "rule": "self.all(name, size(name) <= 63 && name.matches('^[_A-Za-z][_A-Za-z0-9]*$'))",
            "message": "a name has at most 63 letters, digits and underscores, and does not begin with a digit",
        }],
    })
}

/// Strings by name.
pub fn texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_VALUES,
        "additionalProperties": { "type": "string", "maxLength": MAX_VALUE },
    })
}

/// Names of features: the limit is far above the current number, so that the report of a newer agent can be read.
pub fn features(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MAX_FEATURES,
        "items": { "type": "string", "maxLength": MAX_LABEL },
        "x-kubernetes-list-type": "set",
    })
}

/// Restricts the name of a root type to a DNS label, for kinds whose names are used in rows, Kustomizations and labels.
pub fn dns_label_name(schema: &mut Schema) {
    let root = schema.ensure_object();
    let name = json!({ "type": "string", "maxLength": MAX_LABEL });
    if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(
            "metadata".to_owned(),
            json!({ "type": "object", "properties": { "name": name } }),
        );
    }
    let rules = json!([{
        "rule": format!("self.metadata.name.matches('{DNS_LABEL}')"),
        "message": "the name must be a DNS label (lower-case letters, digits and hyphens, at most 63): rows and Kustomizations are named after it",
        "fieldPath": ".metadata.name",
    }]);
    root.insert("x-kubernetes-validations".to_owned(), rules);
}
