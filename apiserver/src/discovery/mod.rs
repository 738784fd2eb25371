//! Discovery: groups, versions and resources, in the legacy and the aggregated form; the version; OpenAPI.

pub(crate) mod openapi;
mod shapes;

use serde_json::{Value, json};

use crate::resources::Resource;
use crate::resources::catalog::{Catalog, Resources};

/// The Kubernetes version that this server imitates.
pub(crate) const VERSION: &str = "v1.36.4";

/// Response to `/version`.
pub(crate) fn server_version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.26", "compiler": "rustc", "platform": "linux/amd64",
        "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
    })
}

/// Response to `/`.
pub(crate) fn api_index(catalog: &Catalog) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in catalog.groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions
                .iter()
                .map(|(version, _)| format!("/apis/{group}/{version}")),
        );
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    json!({"paths": paths})
}

/// Response to `/api` (`core`) or `/apis`: in the aggregated form if the client accepts it.
pub(crate) fn groups(catalog: &Catalog, core: bool, accept: &str) -> (&'static str, Value) {
    for range in crate::http::media_ranges(accept) {
        let is_aggregated =
            range.parameter("as") == "APIGroupDiscoveryList" && range.parameter("g") == "apidiscovery.k8s.io";
        match (is_aggregated, range.parameter("v")) {
            (true, "v2") => {
                let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                return (media, aggregated(catalog, core, "apidiscovery.k8s.io/v2"));
            }
            (true, "v2beta1") => {
                let media = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
                return (media, aggregated(catalog, core, "apidiscovery.k8s.io/v2beta1"));
            }
            _ => {}
        }
    }
    let value = if core {
        json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
    } else {
        let groups: Vec<Value> = catalog
            .groups()
            .keys()
            .filter_map(|name| group_entry(catalog, name))
            .collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    };
    ("application/json", value)
}

/// Response to `/apis/G`.
pub(crate) fn group(catalog: &Catalog, name: &str) -> Option<Value> {
    let mut group = group_entry(catalog, name)?;
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn group_entry(catalog: &Catalog, name: &str) -> Option<Value> {
    let versions: Vec<Value> = catalog
        .groups()
        .get(name)?
        .iter()
        .map(|(version, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    Some(json!({"name": name, "versions": versions, "preferredVersion": versions[0]}))
}

/// Response to `/api/v1` and `/apis/G/V`.
pub(crate) fn resources(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let resources = catalog.version(group, version)?;
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let entries: Vec<Value> = resources
        .values()
        .flat_map(|resource| legacy_entries(resource))
        .collect();
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}),
    )
}

fn legacy_entries(resource: &Resource) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": verbs(resource), "storageVersionHash": "",
    });
    if !resource.short_names.is_empty() {
        main["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        main["categories"] = json!(resource.categories);
    }
    let mut entries = vec![main];
    for sub in subresources(resource) {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
            "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs,
        });
        if let Some((group, version)) = sub.foreign() {
            entry["group"] = group.into();
            entry["version"] = version.into();
        }
        entries.push(entry);
    }
    entries
}

/// Verbs in the order of the real server.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The verbs of a resource: `deletecollection` is not available for namespaces.
fn verbs(resource: &Resource) -> Vec<&'static str> {
    let is_namespace = resource.is("", "Namespace");
    let all = if resource.custom().is_some() {
        CUSTOM_VERBS
    } else {
        VERBS
    };
    all.into_iter()
        .filter(|verb| !(is_namespace && *verb == "deletecollection"))
        .collect()
}

struct Subresource<'a> {
    name: &'static str,
    kind: &'a str,
    verbs: &'static [&'static str],
}

impl Subresource<'_> {
    /// Group and version of the exchanged object, if they differ from the resource's.
    fn foreign(&self) -> Option<(&'static str, &'static str)> {
        match self.name {
            "eviction" => Some(("policy", "v1")),
            "scale" => Some(("autoscaling", "v1")),
            _ => None,
        }
    }
}

fn subresources(resource: &Resource) -> Vec<Subresource<'_>> {
    let mut all = Vec::new();
    if resource.is("", "Pod") {
        let connects: &[&str] = &["create", "get"];
        let of_pods = [
            ("attach", "PodAttachOptions", connects),
            ("eviction", "Eviction", &["create"]),
            ("exec", "PodExecOptions", connects),
            ("portforward", "PodPortForwardOptions", connects),
        ];
        all.extend(of_pods.map(|(name, kind, verbs)| Subresource { name, kind, verbs }));
    }
    if resource.is("", "Namespace") {
        all.push(Subresource {
            name: "finalize",
            kind: &resource.kind,
            verbs: &["update"],
        });
    }
    if resource.scale.is_some() {
        all.push(Subresource {
            name: "scale",
            kind: "Scale",
            verbs: &["get", "patch", "update"],
        });
    }
    if resource.status {
        all.push(Subresource {
            name: "status",
            kind: &resource.kind,
            verbs: &["get", "patch", "update"],
        });
    }
    all
}

fn aggregated(catalog: &Catalog, core: bool, api_version: &str) -> Value {
    let items: Vec<Value> = if core {
        let v1 = catalog
            .version("", "v1")
            .map(|resources| vec![("v1", resources)])
            .unwrap_or_default();
        vec![aggregated_group("", &v1)]
    } else {
        catalog
            .groups()
            .iter()
            .map(|(name, versions)| aggregated_group(name, versions))
            .collect()
    };
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items})
}

fn aggregated_group(name: &str, versions: &[(&str, &Resources)]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, resources)| {
            let entries: Vec<Value> = resources
                .values()
                .map(|resource| aggregated_entry(resource))
                .collect();
            json!({"version": version, "resources": entries, "freshness": "Current"})
        })
        .collect();
    let metadata = if name.is_empty() {
        json!({})
    } else {
        json!({"name": name})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_entry(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": resource.plural, "responseKind": kind(&resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = subresources(resource)
        .iter()
        .map(|sub| {
            let (group, version) = sub.foreign().unwrap_or((&resource.group, &resource.version));
            let response = kind(group, version, sub.kind);
            json!({"subresource": sub.name, "responseKind": response, "verbs": sub.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}
