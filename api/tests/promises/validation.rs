//! Promise: an error in a spec is reported with its field, and with how to fix it.

use muster_api::{
    Module,
    module::ModuleSpec,
    sync::Source,
    validate::{self, InsecureSources, Version, git},
};
use serde_json::{Value, json};

fn spec(pointer: &str, value: Value) -> ModuleSpec {
    let sync = json!({ "source": { "git": { "url": "https://git.example/r", "version": { "tag": "v1" } } }, "package": {} });
    let mut spec = json!({ "sync": sync, "rollout": { "deadlines": {} } });
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    spec.pointer_mut(parent).unwrap()[key] = value;
    serde_json::from_value(spec).unwrap()
}

fn findings_text(spec: &ModuleSpec) -> String {
    let findings = validate::validate_module("app", spec, InsecureSources::Refused);
    findings
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

fn widgets(api_version: &str, current: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": "Widget", "current": current })
}

fn twice(value: Value) -> Value {
    json!([value.clone(), value])
}

/// A duplicate kind in two versions, and more than 8 KiB.
fn bad_expressions() -> [Value; 2] {
    let long = (0..9).map(|index| widgets(&format!("g{index}/v1"), &"x".repeat(1000)));
    [
        json!([
            widgets("example.test/v1", "true"),
            widgets("example.test/v2", "false")
        ]),
        long.collect(),
    ]
}

/// A commit whose tag must be signed, with keys from a Secret that cannot exist.
fn unsigned_tag() -> Value {
    let version = json!({ "commit": "a".repeat(40) });
    let verify = json!({ "mode": "Tag", "secretRef": { "name": "Keys" } });
    json!({ "url": "https://git.example/r", "version": version, "verify": verify })
}

#[test]
fn each_bad_input_and_its_words() {
    let short = "0a1b2c3";
    let field =
        |kind: &str, path: &str| json!({ "apiVersion": "v1", "kind": kind, "name": "n", "fieldPath": path });
    let http = |url: &str, path: &str, op: &str, value: &str| json!({ "url": url, "jsonPath": path, "op": op, "value": value });
    let condition = |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "name": "a", "type": "Ready" });
    let stage = |gates: Value| json!([{ "name": "a", "selector": {}, "gates": gates }]);
    let [two, long] = bad_expressions();
    let cases = [
        (
            "/sync/source/git/version",
            json!({ "tag": "v1", "commit": short }),
        ),
        ("/sync/source/git/version", json!({})),
        ("/sync/source/git/version", json!({ "commit": short })),
        ("/sync/source/git/version", json!({ "commit": "main" })),
        ("/sync/source/git/version", json!({ "tag": "refs/tags/v1" })),
        ("/sync/source/git/version", json!({ "tag": "v1^{commit}" })),
        ("/sync/source/git/url", json!("git@github.com:o/r.git")),
        ("/sync/source/git/url", json!("http://git.example/r")),
        ("/sync/source/git/url", json!("ftp://git.example/r")),
        ("/sync/source/git/url", json!("git.example/r")),
        ("/sync/source/git/url", json!("https:///r")),
        ("/sync/source/git/url", json!("https://user:secret@git.example/r")),
        ("/sync/source/git/url", json!("https://git.example/r?ref=x")),
        ("/sync/source/git/url", json!("https://git.example/a b")),
        ("/sync/source/git/secretRef", json!({ "name": "Git" })),
        ("/sync/source/git", unsigned_tag()),
        ("/sync/package/path", json!("/app")),
        ("/sync/package/path", json!("app/../..")),
        ("/sync/package/path", json!("app/.GIT/hooks")),
        ("/sync/package/path", json!("app\\web")),
        ("/sync/package/path", json!("")),
        ("/sync/package/substitute", json!({ "1st": "" })),
        ("/sync/package/targetNamespace", json!("App")),
        ("/sync/package/timeout", json!("10m")),
        ("/sync/package/settle", json!("4m1s")),
        ("/sync/package", json!({ "settle": "1m", "timeout": "1m" })),
        ("/sync/package/healthExpressions", two),
        ("/sync/package/healthExpressions", long),
        ("/sync/bindings", json!([{ "name": "A" }])),
        (
            "/sync/bindings",
            json!([{ "name": "A", "value": "", "objectFieldRef": field("ConfigMap", "/a") }]),
        ),
        (
            "/sync/bindings",
            json!([{ "name": "A", "objectFieldRef": field("Secret", "/a") }]),
        ),
        (
            "/sync/bindings",
            json!([{ "name": "A", "objectFieldRef": field("ConfigMap", "data.a") }]),
        ),
        ("/sync/bindings", json!([{ "name": "CLUSTER_NAME", "value": "" }])),
        ("/sync/bindings", twice(json!({ "name": "A", "value": "" }))),
        ("/controlPlaneBindings", json!([{ "name": "a-b", "value": "" }])),
        (
            "/selector",
            json!({ "matchExpressions": [{ "key": "env", "operator": "Inn", "values": ["prod"] }] }),
        ),
        ("/rollout/exclusive", json!("a/b/c")),
        (
            "/rollout/stages",
            json!([{ "name": "A", "selector": { "matchLabels": { "a b": "" } } }]),
        ),
        (
            "/rollout/stages",
            stage(
                json!([{}, { "http": http("https://a.test/x", "$.v", "<", "1"), "condition": condition("Pod") }]),
            ),
        ),
        (
            "/rollout/stages",
            stage(json!([
                { "condition": condition("Secret"), "interval": "999ms" }, { "condition": condition("Pod"), "interval": "24h1s" },
                { "condition": condition("Pod"), "timeout": "99ms" }, { "condition": condition("Pod"), "timeout": "61s" },
                { "condition": condition("Pod"), "passes": 0 }, { "condition": condition("Pod"), "passes": 1001 },
            ])),
        ),
        (
            "/rollout/stages",
            stage(json!([
                { "http": http("http://a.test/x", "$.v", "==", "") }, { "http": http("file:///x", "$.v", "==", "") },
                { "http": http("https://ann:secret@a.test/x", "$.v", "==", "") }, { "http": http("https://a.test/a b", "$.v", "==", "") },
                { "http": http("https://a.test/x?q=1", "v", "==", "") }, { "http": http("https://a.test/x", "$[0,1]", "==", "") },
                { "http": http("https://a.test/x", "$..a..b", "==", "") }, { "http": http("https://a.test/x", "$[?match(@.a, @.b)]", "==", "") },
                { "http": http("https://a.test/x", "$.v", "<", "green") }, { "http": http("https://a.test/x", "$.v", ">=", "NaN") },
                { "http": http("https://a.test/x", "$.v", ">", "inf") }, { "http": http("https://a.test/x", "$.v", "<=", "") },
            ])),
        ),
    ];
    let lines: Vec<String> = cases
        .into_iter()
        .map(|(pointer, value)| {
            let words = findings_text(&spec(pointer, value.clone()));
            assert!(!words.is_empty(), "{pointer} {value}");
            words
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn each_bad_address_over_ssh_and_its_words() {
    let cases = [
        "hunter2@github.com:o/r.git",
        "ssh://git@github.com",
        "ssh://git:hunter2@github.com/r",
        "ssh://-oProxyCommand=id/r",
        "ssh://git@github.com:0/r",
        "ssh://git@/r",
        "ssh://git@github.com/r?ref=x",
        "git+ssh://git@github.com/r",
        "mailto:ann",
    ];
    let with = |url: &str| json!({ "url": url, "version": { "tag": "v1" }, "secretRef": { "name": "git" } });
    let lines = cases.map(|url| format!("{url}: {}", findings_text(&spec("/sync/source/git", with(url)))));
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(
        findings_text(&spec(
            "/sync/source/git",
            with("ssh://git@github.com:2222/o/r.git")
        )),
        ""
    );
    let mut through_proxy = with("ssh://git@github.com/o/r.git");
    through_proxy["proxySecretRef"] = json!({ "name": "proxy" });
    assert_eq!(
        findings_text(&spec("/sync/source/git", through_proxy)),
        "spec.sync.source.git.proxySecretRef: a proxy is supported only for https and http: remove proxySecretRef, or use the https URL"
    );
    let without = spec("/sync/source/git/url", json!("ssh://git@github.com/o/r.git"));
    assert_eq!(
        findings_text(&without),
        "spec.sync.source.git.secretRef: ssh needs a Secret with the keys identity and known_hosts: create it, and reference it in secretRef"
    );
}

#[test]
fn what_is_right_is_not_talked_about() {
    let fine = [
        ("/sync/source/git/url", json!("https://git.example:8443/o/r.git")),
        ("/sync/package/path", json!("./clusters/$(CLUSTER_NAME)/app")),
        ("/sync/package/targetNamespace", json!("$(CLUSTER_LABEL_env)-app")),
        ("/sync/package/timeout", json!("8m59s")),
        (
            "/sync/source/git/version",
            json!({ "commit": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567" }),
        ),
        ("/selector", json!({})),
    ];
    for (pointer, value) in fine {
        assert_eq!(findings_text(&spec(pointer, value)), "", "{pointer}");
    }
}

#[test]
fn the_name_of_a_module_is_a_dns_label() {
    let fine = spec("/suspend", json!(false));
    let module = Module::new("a.b", fine);
    let findings = validate::validate_module(
        &module.metadata.name.unwrap(),
        &module.spec,
        InsecureSources::Refused,
    );
    assert_eq!(
        validate::message(&findings),
        "metadata.name: \"a.b\" is not a valid name: use lower-case letters, digits and hyphens, with a letter or digit at both ends"
    );
}

#[test]
fn one_message_says_how_many_more() {
    let mut bad = spec("/sync/package/path", json!("/app"));
    if let Source::Git(git) = &mut bad.sync.source {
        git.url = "git@git.example:r".into();
    }
    let message = validate::message(&validate::validate_module("app", &bad, InsecureSources::Refused));
    assert_eq!(
        message,
        "spec.sync.source.git.url: git's short form of ssh is not supported: write ssh://git@git.example/r (and 1 more)"
    );
    assert_eq!(validate::message(&[]), "");
}

#[test]
fn insecure_sources_only_where_allowed() {
    let check = |url: &str, refused: bool, allowed: bool| {
        assert_eq!(git::url(url, InsecureSources::Refused).is_ok(), refused, "{url}");
        assert_eq!(git::url(url, InsecureSources::Allowed).is_ok(), allowed, "{url}");
    };
    check("https://git.example/r", true, true);
    check("HTTPS://git.example/r", true, true);
    check("http://127.0.0.1:8080/r.git", false, true);
    check("file:///srv/git/r", false, true);
    check("ssh://git.example/r", true, true);
    check("ssh://ann@git.example:2222/r.git", true, true);
    check("ssh://git@[::1]:2222/r", true, true);
    check("ssh://git@[::1/r", false, false);
    check("ssh://git@git.example:x/r", false, false);
    check("git://git.example/r", false, false);
    check("/srv/git/r", false, false);
}

#[test]
fn tags_are_those_that_git_allows() {
    let good = [
        "v1.2.0",
        "release/2026-01",
        "1",
        "v1.0+build",
        "@a",
        "a@b",
        "v1-rc.1",
        "ü",
        "0a1b2c3",
    ];
    let bad = [
        "",
        "-v1",
        "v1.",
        "v1..2",
        "v1 ",
        "v~1",
        "v^1",
        "v:1",
        "v?",
        "v*",
        "v[1",
        "v\\1",
        "@",
        "v@{1}",
        "/v1",
        "v1/",
        "a//b",
        ".v1",
        "a/.b",
        "v1.lock",
        "a.lock/b",
        "v\u{7f}",
        "v\n",
        "refs/heads/main",
    ];
    for tag in good {
        git::tag(tag).unwrap_or_else(|error| panic!("{tag}: {error}"));
    }
    for tag in bad {
        assert!(git::tag(tag).is_err(), "{tag:?}");
    }
    assert!(git::tag(&"v".repeat(245)).is_err());
}

#[test]
fn commits_are_whole_object_names() {
    let hex = |length| "0a".repeat(length)[..length].to_owned();
    let check = |text: &str, good: bool| assert_eq!(git::commit(text).is_ok(), good, "{text:?}");
    for length in [0, 3, 7, 39, 41, 63, 65] {
        check(&hex(length), false);
    }
    check(&hex(40), true);
    check(&hex(64), true);
    check(&hex(40).to_uppercase(), false);
    check(&"g".repeat(40), false);
    let version = serde_json::from_value(json!({ "commit": hex(40) })).unwrap();
    assert_eq!(git::version(&version), Ok(Version::Commit(&hex(40))));
}

/// A field in `spec.sync` in addition to a source that Flux reads, and the expected error.
fn of_flux(pointer: &str, value: Value) -> String {
    let mut spec = json!({
        "sync": {
            "source": {"flux": {
                "ociRepository": {"url": "oci://registry.example/fleet", "ref": {"tag": "v1"}},
            }},
            "package": {"flux": {}},
        },
        "rollout": {"deadlines": {}},
    });
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    spec.pointer_mut(parent).unwrap()[key] = value;
    findings_text(&serde_json::from_value(spec).unwrap())
}

const OCI: &str = "/sync/source/flux/ociRepository";

/// A field, its value, and the expected error.
type Case = (String, Value, &'static str);

fn of_oci(field: &str, value: Value, expect: &'static str) -> Case {
    (format!("{OCI}/{field}"), value, expect)
}

fn artifacts() -> Vec<Case> {
    let digest = format!("sha256:{}", "d".repeat(64));
    let address = "write oci://host/path";
    let rooted = json!({"provider": "cosign", "trustedRootSecretRef": {"name": "x"}});
    vec![
        of_oci("ref", json!({"tag": "v1"}), ""),
        of_oci("ref", json!({ "digest": digest }), ""),
        of_oci(
            "ref",
            json!({"digest": "sha256:dd"}),
            "ociRepository.ref: \"sha256:dd\" is not a digest",
        ),
        of_oci("ref", json!({"tag": "a/b"}), "is not the tag of an OCI artifact"),
        of_oci("ref", json!({}), "set exactly one of tag and digest"),
        of_oci(
            "ref",
            json!({"semver": "1.x"}),
            "ref.semver: semver is not passed on to Flux: it is not an exact artifact",
        ),
        of_oci("url", json!("https://registry.example/fleet"), address),
        of_oci("url", json!("oci://registry.example/fleet:v1"), address),
        of_oci("url", json!("oci://registry.example:/fleet"), address),
        of_oci("url", json!("oci://registry.example/../fleet"), address),
        of_oci("url", json!("oci://user:pw@registry.example/fleet"), address),
        of_oci("url", json!("oci://registry.example:5000/fleet"), ""),
        of_oci(
            "insecure",
            json!(true),
            "insecure is not passed on to Flux: a registry is read over https",
        ),
        of_oci("verify", rooted, "verify.trustedRootSecretRef"),
        of_oci(
            "layerSelector",
            json!({"mediaType": "a/b", "index": 1}),
            "layerSelector.index",
        ),
        of_oci("secretRef", json!({"name": "A_b"}), "secretRef.name"),
    ]
}

fn repositories() -> Vec<Case> {
    let git = |fields: Value, expect: &'static str| {
        let mut all = json!({"url": "https://git.example/r", "ref": {"tag": "v1"}});
        all.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let path = "/sync/source/flux".to_owned();
        (path, json!({ "gitRepository": all }), expect)
    };
    let (commit, keys) = (
        "a".repeat(40),
        json!({"mode": "TagAndHEAD", "secretRef": {"name": "k"}}),
    );
    vec![
        git(json!({}), ""),
        git(json!({"ref": {"commit": "abc"}}), "gitRepository.ref"),
        git(json!({"url": "ssh://git@git.example/r"}), "ssh needs a Secret"),
        git(json!({"include": []}), "include is not passed on"),
        git(
            json!({"ref": {"commit": commit}, "verify": keys}),
            "mode TagAndHEAD needs ref.tag",
        ),
    ]
}

fn packages() -> Vec<Case> {
    let of =
        |field: &str, value: Value, expect: &'static str| (format!("/sync/package/{field}"), value, expect);
    let patches = json!([{"patch": "x".repeat(33_000)}]);
    let account = json!({"provider": "sops", "serviceAccountName": "A b"});
    vec![
        of(
            "plan",
            json!({"file": "plan.yaml"}),
            "package.plan: plan is supported only by the built-in sync",
        ),
        of(
            "assume",
            json!("Never"),
            "package.assume: assume is supported only by the built-in sync",
        ),
        of(
            "flux/kubeConfig",
            json!({}),
            "kubeConfig is not passed on to Flux: muster sets it",
        ),
        of("flux/postBuild", json!({}), "use package.substitute"),
        of("flux/whatever", json!(1), "supported fields: decryption, patches"),
        of("flux/components", json!(["../tls", "a/b"]), ""),
        of(
            "flux/components",
            json!(["/etc"]),
            "components[0]: path \"/etc\" is absolute",
        ),
        of("flux/decryption", json!({"provider": "age"}), "write sops"),
        of("flux/decryption", account, "decryption.serviceAccountName"),
        of("flux/patches", patches, "spec.sync: it has"),
    ]
}

#[test]
fn what_is_handed_through_to_flux_is_an_exact_state_and_nothing_else() {
    for (pointer, value, expect) in [artifacts(), repositories(), packages()].concat() {
        let found = of_flux(&pointer, value.clone());
        let good = if expect.is_empty() {
            found.is_empty()
        } else {
            found.contains(expect)
        };
        assert!(good, "{pointer} {value}: {found:?}, not {expect:?}");
    }
}

#[test]
fn a_source_is_of_one_kind() {
    for source in [
        json!({}),
        json!({"git": {"url": "https://a", "version": {"tag": "v1"}}, "flux": {"gitRepository": {"url": "https://a", "ref": {"tag": "v1"}}}}),
        json!({"flux": {}}),
    ] {
        let error = serde_json::from_value::<Source>(source.clone())
            .unwrap_err()
            .to_string();
        assert!(error.contains("set exactly one of"), "{source}: {error}");
    }
}
