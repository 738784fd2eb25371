//! Promise: the fields of a module for a source that Flux reads, and its Flux-only fields, are in Flux's objects
//! unchanged, at the pinned version.

use std::collections::BTreeSet;

use kube::ResourceExt;
use muster_api::{
    assemblage::{Agent, SyncRow},
    features,
    sync::Package,
};
use muster_controllers::expand::{
    desired::{Values, desired_row},
    drift::repaired,
    flux_object::{FluxObject, is_named_by_content},
    view::DesiredRow,
};
use serde_json::{Value, json};

use super::situation::*;

const DIGEST: &str = "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd";

fn of(source: &Value, commit: &str) -> SyncRow {
    let mut row = row(commit, 1);
    row.source = Some(serde_json::from_value(json!({ "flux": source })).unwrap());
    row
}

fn spec(row: &SyncRow) -> Value {
    match derived(row).source {
        FluxObject::Git(object) => json!(object.spec),
        FluxObject::Oci(object) => json!(object.spec),
    }
}

#[test]
fn passed_through_fields_appear_in_the_flux_object() {
    let git = json!({"gitRepository": {
        "url": "https://dev.azure.test/shop", "ref": {"tag": "v1"}, "provider": "azure",
        "proxySecretRef": {"name": "proxy"}, "ignore": "*.md", "verify": {"mode": "HEAD", "secretRef": {"name": "keys"}},
        "secretRef": {"name": "login", "distribute": true},
    }});
    let expect = json!({
        "url": "https://dev.azure.test/shop", "ref": {"commit": NEW}, "provider": "azure", "interval": "24h", "timeout": "60s",
        "proxySecretRef": {"name": "proxy"}, "ignore": "*.md", "verify": {"mode": "HEAD", "secretRef": {"name": "keys"}},
        "secretRef": {"name": "login"},
    });
    assert_eq!(spec(&of(&git, NEW)), expect);
    let oci = json!({"ociRepository": {
        "url": "oci://registry.test/shop", "ref": {"tag": "v1"}, "provider": "aws",
        "certSecretRef": {"name": "ca"}, "layerSelector": {"mediaType": "application/x", "operation": "extract"},
        "verify": {"provider": "cosign", "matchOIDCIdentity": [{"issuer": "^https://i$", "subject": "^s$"}]},
    }});
    let defaulted = json!({"ociRepository": {"url": "oci://registry.test/shop", "ref": {"tag": "v1"}}});
    assert_eq!(
        spec(&of(&defaulted, DIGEST))["provider"],
        "generic",
        "as the kind fills it in"
    );
    let mut expect = oci["ociRepository"].clone();
    for (field, value) in [
        ("ref", json!({"digest": format!("sha256:{DIGEST}")})),
        ("interval", json!("24h")),
        ("timeout", json!("60s")),
    ] {
        expect[field] = value;
    }
    assert_eq!(spec(&of(&oci, DIGEST)), expect);
    let package: Package = serde_json::from_value(json!({"flux": {
        "decryption": {"provider": "sops", "secretRef": {"name": "age"}}, "serviceAccountName": "shop",
        "patches": [{"patch": "- op: remove\n  path: /spec", "target": {"kind": "Job"}}],
        "images": [{"name": "shop", "newTag": "v2"}], "components": ["../tls"], "ignoreMissingComponents": true,
        "commonMetadata": {"labels": {"team": "shop"}}, "namePrefix": "a-", "nameSuffix": "-b",
    }}))
    .unwrap();
    let kustomization = json!(derived_with(&of(&oci, DIGEST), &package).kustomization.spec);
    for (field, value) in json!(package.flux).as_object().unwrap() {
        assert_eq!(&kustomization[field], value, "{field}");
    }
    assert_eq!(kustomization["sourceRef"]["kind"], "OCIRepository");
}

/// A name is derived from the kind and all of the spec: two specs never share an object.
#[test]
fn each_spec_has_an_object_of_its_own_that_is_known_by_its_name() {
    let plain = json!({"gitRepository": {"url": "https://git.example/web", "ref": {"tag": "v1"}}});
    let mut ignoring = plain.clone();
    ignoring["gitRepository"]["ignore"] = json!("*.md");
    let names: Vec<String> = [of(&plain, NEW), of(&ignoring, NEW), of(&plain, OLD), row(NEW, 1)]
        .iter()
        .map(|row| {
            let derived = derived(row);
            let FluxObject::Git(object) = &derived.source else {
                panic!("{derived:?}");
            };
            assert!(is_named_by_content(&**object), "{object:?}");
            object.name_any()
        })
        .collect();
    let mut distinct = names.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    // The version that a tag is pinned to counts, not the tag.
    let mut other = plain.clone();
    other["gitRepository"]["ref"] = json!({"tag": "v2"});
    assert_eq!(derived(&of(&other, NEW)).source, derived(&of(&plain, NEW)).source);
}

/// A patch that the module no longer has is removed from the Kustomization; a default of the kind stays.
#[test]
fn what_is_not_handed_through_any_more_goes() {
    let row = row(NEW, 1);
    let before: Package =
        serde_json::from_value(json!({"flux": {"namePrefix": "a-", "nameSuffix": "-b"}})).unwrap();
    let mut live = live(&derived_with(&row, &before));
    live.metadata.managed_fields = Some(vec![fields(
        US,
        json!({"f:spec": {"f:namePrefix": {}, "f:nameSuffix": {}, "f:path": {}, "f:defaulted": {}}}),
    )]);
    // Fields that the API server defaults count as the writer's.
    live.spec.other.insert("defaulted".to_owned(), json!(true));
    let after: Package = serde_json::from_value(json!({"flux": {"namePrefix": "c-"}})).unwrap();
    let next = repaired(&live, &derived_with(&row, &after).kustomization, US).unwrap();
    assert_eq!(
        json!(next.spec.other),
        json!({"namePrefix": "c-", "defaulted": true})
    );
}

fn features(agent: &BTreeSet<String>, row: &SyncRow) -> Vec<&'static str> {
    let needed = features::needed(row).into_iter();
    needed.filter(|feature| !agent.contains(*feature)).collect()
}

#[test]
fn what_flux_cannot_do_is_not_given_to_it() {
    let package = |fields: Value| SyncRow {
        package: Some(serde_json::from_value(fields).unwrap()),
        ..row(NEW, 1)
    };
    let git = json!({"gitRepository": {"url": "https://git.example/web", "ref": {"commit": NEW}}});
    for (row, built_in, with_flux) in [
        (of(&git, NEW), &["source.flux"][..], &[][..]),
        (
            package(json!({"flux": {"namePrefix": "a-"}})),
            &["package.flux"],
            &[],
        ),
        (package(json!({"plan": {"file": "plan.yaml"}})), &[], &["plan"]),
        (package(json!({"assume": "Never"})), &[], &["assume"]),
        (row(NEW, 1), &[], &[]),
    ] {
        assert_eq!(features(&features::own(false), &row), built_in, "{row:?}");
        assert_eq!(features(&features::own(true), &row), with_flux, "{row:?}");
        let far = features(&features::remote(true), &row);
        assert_eq!(far, with_flux, "from the management cluster: {row:?}");
    }
}

/// Upgrading the agent would not help: Flux must apply.
#[test]
fn where_muster_applies_the_next_step_is_flux() {
    let git = json!({"gitRepository": {"url": "https://git.example/web", "ref": {"commit": NEW}}});
    for (sync, own, process) in [
        ("builtin", features::own(false), "muster agent --sync flux"),
        (
            features::REMOTE,
            features::remote(false),
            "muster controller --sync flux",
        ),
    ] {
        let agent = Agent {
            version: "1".to_owned(),
            sync: sync.to_owned(),
            features: own,
        };
        let DesiredRow::Refused(refusal) =
            desired_row(&expansion_target(), &of(&git, NEW), &Ok(Values::new()), &agent)
        else {
            panic!("{sync}");
        };
        let words = ["only Flux supports: source.flux", process];
        let has_words = words.iter().all(|words| refusal.message.contains(words));
        assert!(has_words && !refusal.message.contains("upgrade"), "{refusal:?}");
    }
}

#[test]
fn where_flux_applies_the_next_step_is_another_agent_or_the_built_in_sync() {
    let agent = Agent {
        version: "0.1.0".to_owned(),
        sync: features::FLUX.to_owned(),
        features: ["healthTable".to_owned()].into(),
    };
    for (missing, next) in [
        ("source.flux", "upgrade the agent and its definitions"),
        ("plan", "use the built-in sync (--sync builtin)"),
    ] {
        let message = features::refusal(&[missing].into(), Some(&agent));
        assert!(message.contains(missing), "{message}");
        for words in ["upgrade the agent", "--sync builtin"] {
            assert_eq!(
                message.contains(words),
                next.contains(words),
                "{words}: {message}"
            );
        }
    }
}

/// A row of another writer than muster is restricted to the fields that are passed through, too.
#[test]
fn a_row_with_fields_of_flux_that_are_not_handed_through_is_refused() {
    let place = expansion_target();
    let agent = Agent {
        version: "1".to_owned(),
        sync: features::FLUX.to_owned(),
        features: features::own(true),
    };
    for (fields, expect) in [
        (json!({"suspend": "x"}), "suspend is not passed on"),
        (json!({"url": "oci://registry.test"}), "write oci://host/path"),
    ] {
        let mut source = json!({"url": "oci://registry.test/web", "ref": {"tag": "v1"}});
        source
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let row = of(&json!({ "ociRepository": source }), DIGEST);
        let DesiredRow::Refused(refusal) = desired_row(&place, &row, &Ok(Values::new()), &agent) else {
            panic!("{row:?}");
        };
        assert!(
            refusal.terminal && refusal.message.contains(expect),
            "{refusal:?}"
        );
    }
}
