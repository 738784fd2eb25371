//! Promise: generated names are valid, recognizable, and unique to an identity.

use std::collections::BTreeSet;

use muster_api::{
    module::ModuleKind,
    names,
    sync::{GitSecretReference, GitSource, GitVersion, LocalReference, Source},
    validate::names::{dns_label, dns_subdomain},
};
use proptest::prelude::*;
use serde_json::json;

const COMMIT: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";

/// A source without a proxy keeps its name; with a proxy it has a different one, also from a source whose own Secret
/// has the name of the proxy's.
#[test]
fn a_proxy_is_a_part_of_a_sources_name() {
    let named = |secret: Option<&str>, proxy: Option<&str>| {
        let git = GitSource {
            url: "https://git.example/fleet".to_owned(),
            version: GitVersion::default(),
            secret_ref: secret.map(|name| GitSecretReference {
                name: name.to_owned(),
                distribute: false,
            }),
            proxy_secret_ref: proxy.map(|name| LocalReference {
                name: name.to_owned(),
            }),
            verify: None,
        };
        names::source_of(&Source::Git(git), COMMIT)
    };
    assert_eq!(
        named(None, None),
        names::source("https://git.example/fleet", COMMIT, None)
    );
    assert_eq!(
        named(Some("git"), None),
        names::source("https://git.example/fleet", COMMIT, Some("git"))
    );
    let all = [
        named(None, None),
        named(Some("a"), None),
        named(None, Some("a")),
        named(Some("a"), Some("a")),
        named(Some("a"), Some("b")),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
}

/// Golden: a change of these would re-create every source, and pin every version of a source that Flux reads again.
#[test]
fn golden_vectors_of_sources_that_flux_reads() {
    let source =
        |fields: serde_json::Value| -> Source { serde_json::from_value(json!({ "flux": fields })).unwrap() };
    let git = source(json!({"gitRepository": {
        "url": "https://git.example/fleet", "ref": {"tag": "v1"}, "secretRef": {"name": "git", "distribute": true},
        "verify": {"mode": "HEAD", "secretRef": {"name": "keys"}},
    }}));
    let oci = source(json!({"ociRepository": {
        "url": "oci://registry.example/fleet", "ref": {"tag": "v1"}, "verify": {"provider": "cosign"},
    }}));
    let lines = [
        names::source_of(&git, COMMIT),
        names::source_of(&oci, &"d".repeat(64)),
        names::module_source(ModuleKind::Module, "fleet", "app"),
        git.flux().unwrap().request().to_string(),
        oci.flux().unwrap().request().to_string(),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

/// Golden: these names exist in clusters; a change would re-create everything.
#[test]
fn golden_vectors() {
    let lines = [
        names::source("https://git.example/fleet", COMMIT, None),
        names::source("https://git.example/fleet", COMMIT, Some("git")),
        names::kustomization("muster-system", "eu-1", "app"),
        names::kustomization("fleet", "eu-1", "app"),
        names::module_revision_name(ModuleKind::Module, "fleet", "app", &"0".repeat(64)),
        names::module_revision_name(ModuleKind::BootstrapModule, "fleet", "app", &"0".repeat(64)),
        names::kubeconfig_secret("eu-1"),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    src-nb5pnefjie
    src-6p3m34jbz2
    app-6joorajbwt
    app-nbksqqzk4z
    app-qunuhjz2lf
    app-xenqlfoz5t
    eu-1-kubeconfig
    "#);
}

/// A sync's name is kept up to 52 bytes, without a hyphen or dot at the end.
#[test]
fn stems() {
    let check = |sync: &str, stem: &str| {
        let name = names::kustomization("fleet", "eu-1", sync);
        let (kept, hash) = name.rsplit_once('-').unwrap();
        assert_eq!(kept, stem, "{sync}");
        assert_eq!(hash.len(), 10, "{sync}");
        assert!(name.len() <= 63, "{sync}");
        dns_subdomain(&name).unwrap();
    };
    let a = |length: usize| "a".repeat(length);
    check("a", "a");
    for length in [1, 51, 52] {
        check(&a(length), &a(length));
    }
    for length in [53, 62, 63, 253] {
        check(&a(length), &a(52));
    }
    check(&format!("{}-b", a(51)), &a(51));
    check(&format!("{}.b", a(51)), &a(51));
    check(&format!("{}--b", a(50)), &a(50));
    check(&format!("{}-bcd", a(49)), &format!("{}-bc", a(49)));
    check(&format!("{}.bcd", a(49)), &format!("{}.bc", a(49)));
}

/// Names with the same first 52 bytes differ, and so do identities whose parts are split differently.
#[test]
fn similar_identities_get_distinct_names() {
    let long = "a".repeat(60);
    let identities = [
        ("fleet", "eu-1", format!("{long}-1")),
        ("fleet", "eu-1", format!("{long}-2")),
        ("fleet", "eu", "1-app".to_owned()),
        ("fleet", "eu-1", "app".to_owned()),
        ("fleet-eu", "1", "app".to_owned()),
        ("fleet", "eu-2", "app".to_owned()),
    ];
    let names: BTreeSet<String> = identities
        .iter()
        .map(|(namespace, assemblage, sync)| names::kustomization(namespace, assemblage, sync))
        .collect();
    assert_eq!(names.len(), identities.len());
    let url = "https://git.example/r";
    assert_ne!(
        names::source(url, COMMIT, None),
        names::source(url, COMMIT, Some("none"))
    );
    assert_ne!(
        names::source(url, COMMIT, None),
        names::source("https://git.example/r.git", COMMIT, None)
    );
}

/// A thousand clusters with ten syncs each, and as many sources.
#[test]
fn a_large_fleet_has_no_collision() {
    let kustomizations = (0..1_000).flat_map(|cluster| {
        (0..10).map(move |sync| {
            names::kustomization(
                "fleet",
                &format!("eu-{cluster}"),
                &format!("{}-{sync}", "s".repeat(60)),
            )
        })
    });
    let sources =
        (0..10_000).map(|number| names::source("https://git.example/r", &format!("{number:040x}"), None));
    let all: BTreeSet<String> = kustomizations.chain(sources).collect();
    assert_eq!(all.len(), 20_000);
}

fn label() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
}

fn subdomain() -> impl Strategy<Value = String> {
    proptest::collection::vec(label(), 1..4).prop_map(|parts| parts.join("."))
}

proptest! {
    #[test]
    fn names_of_labels_are_labels(namespace in label(), assemblage in label(), sync in label()) {
        dns_label(&names::kustomization(&namespace, &assemblage, &sync)).unwrap();
        dns_label(&names::module_revision_name(ModuleKind::Module, &namespace, &sync, &assemblage)).unwrap();
        dns_label(&names::source(&namespace, &assemblage, Some(&sync))).unwrap();
    }

    #[test]
    fn names_of_subdomains_are_subdomains_of_at_most_63_bytes(assemblage in subdomain(), sync in subdomain()) {
        let name = names::kustomization("fleet", &assemblage, &sync);
        dns_subdomain(&name).unwrap();
        prop_assert!(name.len() <= 63);
    }

    #[test]
    fn another_identity_is_another_name(one in (label(), subdomain(), subdomain()), other in (label(), subdomain(), subdomain())) {
        let name = |(namespace, assemblage, sync): &(String, String, String)| names::kustomization(namespace, assemblage, sync);
        prop_assert_eq!(one == other, name(&one) == name(&other));
    }
}
