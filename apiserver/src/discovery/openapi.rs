//! OpenAPI v3: one document for each group and version. Custom resources have the schema of their definition, built-in
//! kinds the names and types of their fields.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value, json};

use super::shapes;
use crate::resources::catalog::{Catalog, Resources};
use crate::resources::{Resource, Typing};

/// Response to `/openapi/v3`: the URLs of the documents, each with a hash of its content.
pub(crate) fn openapi_index(catalog: &Catalog) -> Value {
    let mut paths = Map::new();
    for (group, version, resources) in catalog.versions() {
        let path = base(group, version);
        let url = format!("/openapi/v3/{path}?hash={:016X}", content(resources));
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// The media type of `/openapi/v2`. Clients request it with `@` for the last dot, which is not valid in a media type.
const VERSION_2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Response to `/openapi/v2`: a document without kinds, as JSON or as the protobuf message of the same name
/// (`Document`: `swagger` is field 1, `info` field 2 with `title` 1 and `version` 2). kubectl requests it before it
/// applies a `List`, and leaves the validation of fields to the server for kinds that are not in it.
pub(crate) fn version_2(accept: &str) -> (&'static str, Vec<u8>) {
    if accept.contains("proto-openapi") {
        // Fields 1, swagger, and 2, info, whose fields 1 and 2 are title and version: each a tag, a length and the
        // text.
        let document = b"\x0a\x032.0\x12\x13\x0a\x0aKubernetes\x12\x05v1.36";
        return (VERSION_2, document.to_vec());
    }
    let document = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36"}, "paths": {}, "definitions": {}});
    ("application/json", document.to_string().into_bytes())
}

/// A hash of everything that the document is made of.
fn content(resources: &Resources) -> u64 {
    let mut hasher = DefaultHasher::new();
    for resource in resources.values() {
        (
            &resource.plural,
            &resource.kind,
            resource.namespaced,
            resource.status,
        )
            .hash(&mut hasher);
        if let Some(custom) = resource.custom() {
            custom.openapi.hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn base(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// The document of a group and version.
pub(crate) fn openapi_document(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let resources = catalog.version(group, version)?;
    let mut paths = Map::new();
    let mut schemas = Map::new();
    schemas.insert(OBJECT_META.to_owned(), object_meta());
    for resource in resources.values() {
        let name = schema_name(resource);
        for (path, item) in path_items(resource, &name) {
            paths.insert(path, item);
        }
        let schema = schema(resource, &mut schemas);
        schemas.insert(name, schema);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": super::VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn gvk(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

/// `com.example.v1.Widget` for `example.com/v1`, and the names of the Go types for built-in kinds.
fn schema_name(resource: &Resource) -> String {
    if let Typing::Builtin(Some(name)) = resource.typing {
        return shapes::public_name(name);
    }
    let package = resource.group.rsplit('.').collect::<Vec<_>>().join(".");
    format!("{package}.{}.{}", resource.version, resource.kind)
}

fn schema(resource: &Resource, schemas: &mut Map<String, Value>) -> Value {
    let texts = [
        (
            "apiVersion",
            "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
        ),
        (
            "kind",
            "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
        ),
    ];
    let mut schema = match &resource.typing {
        // It was serialized from a valid value.
        Typing::Custom(custom) => serde_json::from_str(&custom.openapi).unwrap_or_default(),
        Typing::Builtin(Some(name)) => shapes::schema(name, schemas),
        Typing::Builtin(None) => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    for (field, description) in texts {
        schema["properties"][field] = json!({"type": "string", "description": description});
    }
    schema["properties"]["metadata"] = json!({
        "description": "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        "allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}],
    });
    schema["x-kubernetes-group-version-kind"] = json!([gvk(resource)]);
    schema
}

fn path_items(resource: &Resource, schema: &str) -> Vec<(String, Value)> {
    let root = format!("/{}", base(&resource.group, &resource.version));
    let scoped = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}")
    } else {
        root
    };
    let collection = format!("{scoped}/{}", resource.plural);
    let one = format!("{collection}/{{name}}");
    let patches = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    ];
    let operation = |action: &str, media: &[&str]| {
        let reference = json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
        let content: Map<String, Value> = media
            .iter()
            .map(|m| ((*m).to_owned(), reference.clone()))
            .collect();
        let mut operation = json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(resource),
            "parameters": parameters(action),
            "responses": {"200": {"description": "OK", "content": {"application/json": reference}}},
        });
        if !content.is_empty() {
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        operation
    };
    let json_type = ["application/json"];
    vec![
        (
            collection,
            json!({
                "get": operation("list", &[]), "post": operation("post", &json_type),
                "delete": operation("deletecollection", &[]),
            }),
        ),
        (
            one,
            json!({
                "get": operation("get", &[]), "put": operation("put", &json_type),
                "patch": operation("patch", &patches), "delete": operation("delete", &[]),
            }),
        ),
    ]
}

fn parameters(action: &str) -> Value {
    let names: &[&str] = match action {
        "post" | "put" => &["dryRun", "fieldManager", "fieldValidation"],
        "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
        "list" => &[
            "labelSelector",
            "fieldSelector",
            "limit",
            "continue",
            "watch",
            "resourceVersion",
        ],
        "delete" | "deletecollection" => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
        _ => &[],
    };
    let parameter =
        |name: &&str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    names.iter().map(parameter).collect()
}

fn object_meta() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let map = |description: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description});
    json!({
        "type": "object",
        "description": "ObjectMeta is metadata that all persisted resources must have, which includes all objects users must create.",
        "properties": {
            "annotations": map("Annotations is an unstructured key value map stored with a resource."),
            "creationTimestamp": text("CreationTimestamp is the server time when this object was created."),
            "deletionGracePeriodSeconds": {"type": "integer", "description": "Seconds until the object is removed."},
            "deletionTimestamp": text("DeletionTimestamp is when this resource will be deleted."),
            "finalizers": {
                "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
                "description": "Must be empty before the object is deleted from the registry.",
            },
            "generateName": text("GenerateName is an optional prefix for a name that the server generates."),
            "generation": {"type": "integer", "description": "A number that counts changes of the desired state."},
            "labels": map("Map of string keys and values that can be used to organize and select objects."),
            "managedFields": {
                "type": "array", "items": {"type": "object"}, "description": "Who manages which fields.",
            },
            "name": text("Name must be unique within a namespace."),
            "namespace": text("Namespace defines the space within which each name must be unique."),
            "ownerReferences": {
                "type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"], "description": "List of objects depended by this object.",
            },
            "resourceVersion": text("An opaque value that represents the internal version of this object."),
            "selfLink": text("Deprecated: not populated by the system."),
            "uid": text("UID is the unique in time and space value for this object."),
        },
    })
}
