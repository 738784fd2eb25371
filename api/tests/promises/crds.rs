//! Promise: `api/crds/*.yaml` match the types, and API servers accept them.

use std::{collections::BTreeMap, fs, path::PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_api::{crds, kind};
use muster_apiserver::schema::{Changed, Schema};
use serde_json::{Value, json};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crds")
}

#[test]
fn committed_files_equal_the_types() {
    let generated: BTreeMap<String, String> = crds::generated().into_iter().collect();
    let entries = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap());
    let committed: BTreeMap<String, String> = entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read_to_string(entry.path()).unwrap(),
            )
        })
        .collect();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&committed), names(&generated), "run `cargo xtask generate`");
    for (file, text) in &generated {
        assert!(
            &committed[file] == text,
            "{file} is not up to date: run `cargo xtask generate` and commit"
        );
    }
}

#[test]
fn the_files_read_back_as_the_definitions() {
    let all = crds::management()
        .into_iter()
        .chain(crds::downstream())
        .chain(crds::flux())
        .chain(crds::rollout_operator());
    for definition in all.chain([crds::cluster_api()]) {
        let read = crate::support::yaml(&crds::yaml(&definition));
        assert_eq!(
            read,
            serde_json::to_value(&definition).unwrap(),
            "{:?}",
            definition.metadata.name
        );
        let schema = crate::support::openapi(&definition);
        Schema::parse(&schema).unwrap_or_else(|causes| panic!("{:?}: {causes:?}", definition.metadata.name));
        assert!(crds::is_ours(&definition));
    }
}

/// A limit that JSON changes by one is another limit: the greatest token is a number of sixteen digits.
#[test]
fn numbers_come_through_json_as_they_are() {
    for definition in crds::management().into_iter().chain(crds::downstream()) {
        let sent = serde_json::to_string(&definition).unwrap();
        let read: CustomResourceDefinition = serde_json::from_str(&sent).unwrap();
        assert_eq!(read, definition, "{:?}", definition.metadata.name);
    }
}

#[test]
fn every_kind_is_found_by_its_names_and_the_category() {
    let found: Vec<String> = crate::support::definitions()
        .iter()
        .map(|definition| {
            let names = &definition.spec.names;
            assert_eq!(definition.spec.group, kind::GROUP);
            let of_nodes = names.kind.starts_with("Node");
            assert_eq!(definition.spec.scope == "Cluster", of_nodes, "{}", names.kind);
            assert_eq!(
                names.categories.as_deref(),
                Some(["muster".to_owned()].as_slice())
            );
            let version = &definition.spec.versions[0];
            assert_eq!(
                format!("{}/{}", definition.spec.group, version.name),
                kind::API_VERSION
            );
            assert!(version.subresources.as_ref().unwrap().status.is_some());
            format!(
                "{} {} {}",
                names.kind,
                names.plural,
                names.short_names.as_ref().unwrap().join(",")
            )
        })
        .collect();
    insta::assert_snapshot!(found.join("\n"), @"
    Module modules mmod
    BootstrapModule bootstrapmodules bmod
    ProxyAssemblage proxyassemblages pasm
    RemoteAssemblage remoteassemblages rasm
    ModuleRevision modulerevisions mrev
    RolloutWindow rolloutwindows rwin
    Assemblage assemblages asm
    PlanRun planruns prun
    NodeModule nodemodules nmod
    NodeRevision noderevisions nrev
    NodeAssemblage nodeassemblages nasm
    NodeBudget nodebudgets nbud
    UpdatePlan updateplans uplan
    ClusterUpgrade clusterupgrades cup
    ");
}

#[test]
fn a_definition_of_someone_else_is_not_ours() {
    let mut foreign = crds::flux().remove(0);
    foreign.metadata.labels = Some(BTreeMap::from([(
        "app.kubernetes.io/part-of".into(),
        "flux".into(),
    )]));
    assert!(!crds::is_ours(&foreign));
}

/// Helm sets its own managed-by label on everything that it installs.
#[test]
fn a_definition_that_helm_installed_is_ours() {
    for mut definition in crds::flux().into_iter().chain([crds::cluster_api()]) {
        let labels = definition.metadata.labels.get_or_insert_default();
        labels.insert("app.kubernetes.io/managed-by".into(), "Helm".into());
        assert!(crds::is_ours(&definition), "{:?}", definition.metadata);
    }
}

/// muster's definitions store and reject the same objects as those of rollout-operator.
#[test]
fn the_kinds_of_rollout_operator_take_what_they_took() {
    let schemas: Vec<Schema> = crds::rollout_operator()
        .iter()
        .map(|definition| Schema::parse(&crate::support::openapi(definition)).unwrap())
        .collect();
    let selector = json!({"matchLabels": {"rollout-group": "ingester"}});
    for (kind, spec, good) in [
        (0, json!({"selector": selector}), true),
        (0, json!({"selector": selector, "maxUnavailable": 0}), true),
        (0, json!({"selector": selector, "maxUnavailable": -1}), false),
        (0, json!({"selector": selector, "maxUnavailable": null}), true),
        (
            0,
            json!({"selector": selector, "maxUnavailablePercentage": 101}),
            false,
        ),
        (0, json!({"selector": selector, "podNameRegexGroup": 0}), false),
        (0, json!({"selector": {}}), false),
        (0, json!({"maxUnavailable": 1}), false),
        (1, json!({}), true),
        (1, json!({"replicas": -1}), false),
    ] {
        let mut object = json!({"spec": spec});
        schemas[kind].default(&mut object, &Changed::Whole);
        assert_eq!(
            schemas[kind].validate(&object, None, &Changed::Whole).is_empty(),
            good,
            "{object}"
        );
        assert!(kind == 0 || object["spec"]["replicas"].is_i64(), "{object}");
    }
    let definition = &crds::rollout_operator()[1];
    let scale = definition.spec.versions[0]
        .subresources
        .as_ref()
        .unwrap()
        .scale
        .as_ref();
    assert_eq!(scale.unwrap().spec_replicas_path, ".spec.replicas");
}

/// Every string, list and map has a maximum size, and every field has a description.
#[test]
fn everything_is_bounded_and_explained() {
    for definition in crate::support::definitions()
        .into_iter()
        .chain(crds::rollout_operator())
    {
        let schema = crate::support::openapi(&definition);
        let mut problems = Vec::new();
        for part in ["spec", "status"]
            .into_iter()
            .filter(|part| schema["properties"].get(part).is_some())
        {
            walk(&schema["properties"][part], &format!(".{part}"), &mut problems);
        }
        assert!(
            problems.is_empty(),
            "{}: {problems:#?}",
            definition.spec.names.kind
        );
    }
}

fn walk(schema: &Value, path: &str, problems: &mut Vec<String>) {
    let has = |key: &str| schema.get(key).is_some();
    match schema["type"].as_str() {
        Some("string") if !has("maxLength") && !has("enum") && schema["format"] != "date-time" => {
            problems.push(format!("{path}: string without maxLength"));
        }
        Some("array") if !has("maxItems") || !has("x-kubernetes-list-type") => {
            problems.push(format!("{path}: list without maxItems or list type"));
        }
        Some("object") if has("additionalProperties") && !has("maxProperties") => {
            problems.push(format!("{path}: map without maxProperties"));
        }
        Some("object") if !has("additionalProperties") && !has("properties") => {
            problems.push(format!("{path}: object without fields"));
        }
        None if !has("x-kubernetes-int-or-string") => problems.push(format!("{path}: no type")),
        _ => {}
    }
    // Other fields of Flux are kept, to be rejected by name; the size of a module's row limits them.
    let of_flux = [
        ".flux",
        ".gitRepository",
        ".ociRepository",
        ".ref",
        ".verify",
        ".layerSelector",
        ".decryption",
    ];
    let refused_by_name = of_flux.iter().any(|end| path.ends_with(end));
    if has("x-kubernetes-preserve-unknown-fields") && !refused_by_name || has("nullable") {
        problems.push(format!("{path}: takes anything, or null"));
    }
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if rule["message"].as_str().is_none_or(str::is_empty) {
            problems.push(format!("{path}: rule without message"));
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if property["description"].as_str().is_none_or(str::is_empty) {
            problems.push(format!("{path}: not explained"));
        }
        walk(property, &path, problems);
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}[]"), problems);
    }
    if let Some(values) = schema.get("additionalProperties") {
        walk(values, &format!("{path}{{}}"), problems);
    }
}
