//! Promise: an API server with muster's CRDs rejects invalid specs with helpful messages, and nothing else.

use crate::support::admit;
use muster_api::schema::MAX_TOKEN;
use serde_json::{Value, json};

fn module() -> Value {
    json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": { "name": "app" },
        "spec": { "sync": { "source": { "git": { "url": "https://git.example/r", "version": { "tag": "v1" } } } } },
    })
}

fn assemblage(kind: &str, rows: Value) -> Value {
    let mut object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": kind, "metadata": { "name": "eu-1" },
        "spec": { "clusterRef": { "name": "eu-1" }, "syncs": rows },
    });
    if kind == "Assemblage" {
        object["spec"].as_object_mut().unwrap().remove("clusterRef");
    }
    object
}

fn source() -> Value {
    json!({ "git": { "url": "https://git.example/r", "version": { "tag": "v1" } } })
}

/// The object with `value` at a JSON pointer, whose missing parents are created.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let mut place = &mut object;
    for step in pointer.trim_start_matches('/').split('/') {
        if place.is_null() {
            *place = json!({});
        }
        place = &mut place[step];
    }
    *place = value;
    object
}

fn check(object: &Value, old: Option<&Value>, expect: Result<(), &str>) {
    match (admit(object, old), expect) {
        (Ok(_), Ok(())) => {}
        (Err(errors), Err(wanted)) => {
            assert!(
                errors.iter().any(|line| line.contains(wanted)),
                "wanted {wanted:?}, said {errors:#?}"
            );
        }
        (result, expect) => panic!("wanted {expect:?}, got {result:#?}\nfor {object:#}"),
    }
}

#[test]
fn a_signed_tag_needs_a_tag_and_rows_need_no_signature() {
    let verify = |mode: &str, version: Value| {
        let source = json!({
            "url": "https://git.example/r", "version": version,
            "verify": { "mode": mode, "secretRef": { "name": "keys" } },
        });
        with(module(), "/spec/sync/source/git", source)
    };
    let (tag, commit) = (json!({ "tag": "v1" }), json!({ "commit": "a".repeat(40) }));
    check(&verify("Tag", tag.clone()), None, Ok(()));
    check(&verify("Commit", tag.clone()), None, Ok(()));
    check(&verify("Commit", commit.clone()), None, Ok(()));
    check(
        &verify("Tag", commit),
        None,
        Err("verify.mode Tag needs version.tag"),
    );
    check(&verify("HEAD", tag.clone()), None, Err("Unsupported value"));
    let bare = with(
        verify("Tag", tag),
        "/spec/sync/source/git/verify",
        json!({ "mode": "Tag" }),
    );
    check(&bare, None, Err("secretRef"));
    let mut signed = source();
    signed["git"]["verify"] = json!({ "mode": "Tag", "secretRef": { "name": "keys" } });
    for kind in ["Assemblage", "RemoteAssemblage", "ProxyAssemblage"] {
        let row = |source: &Value| assemblage(kind, json!([{ "name": "app", "source": source }]));
        check(&row(&source()), None, Ok(()));
        check(
            &row(&signed),
            None,
            Err("verify belongs in the source of a Module"),
        );
    }
}

#[test]
fn expressions_are_bounded() {
    let package = |value| {
        with(
            module(),
            "/spec/sync/package",
            json!({ "healthExpressions": value }),
        )
    };
    let widgets = json!({ "apiVersion": "example.test/v1", "kind": "Widget", "current": "true" });
    check(&package(json!([widgets])), None, Ok(()));
    let more = |field: &str, value: Value| {
        let mut widgets = widgets.clone();
        widgets[field] = value;
        package(json!([widgets]))
    };
    check(&more("failed", json!("status.phase == 'Failed'")), None, Ok(()));
    check(&more("current", json!("")), None, Err("current"));
    check(
        &more("inProgress", json!("x".repeat(1025))),
        None,
        Err("inProgress"),
    );
    check(
        &package(json!(vec![widgets.clone(); 33])),
        None,
        Err("healthExpressions"),
    );
    check(
        &package(json!([{ "apiVersion": "example.test/v1", "kind": "Widget" }])),
        None,
        Err("current"),
    );
}

#[test]
fn a_table_of_health_has_a_version_that_there_is() {
    let package = |version: &str| {
        let package = json!({ "healthTable": version });
        with(module(), "/spec/sync/package", package)
    };
    check(&package("v1"), None, Ok(()));
    check(&package("v2"), None, Err("healthTable"));
    check(&package(""), None, Err("healthTable"));
}

#[test]
fn settle_is_bounded_where_it_is_set() {
    let package = |value| with(module(), "/spec/sync/package", value);
    for fine in [
        json!({ "settle": "4m" }),
        json!({ "settle": "0s", "assume": "Never" }),
        json!({ "timeout": "1s" }),
    ] {
        check(&package(fine), None, Ok(()));
    }
    check(
        &package(json!({ "settle": "241s" })),
        None,
        Err("settle must be at most 4m"),
    );
    check(
        &package(json!({ "settle": "1m", "timeout": "1m" })),
        None,
        Err("settle must be shorter than timeout"),
    );
    check(&package(json!({ "assume": "Always" })), None, Err("assume"));
    let rows = json!([{ "name": "a", "source": source(), "package": { "settle": "5m" } }]);
    check(
        &assemblage("Assemblage", rows),
        None,
        Err("settle must be at most 4m"),
    );
}

#[test]
fn a_module_is_an_exact_state() {
    let version = |value| with(module(), "/spec/sync/source/git/version", value);
    let commit = "0123456789abcdef0123456789abcdef01234567";
    check(&version(json!({ "commit": commit })), None, Ok(()));
    check(
        &version(json!({ "commit": format!("{commit}012345670123456701234567") })),
        None,
        Ok(()),
    );
    check(
        &version(json!({ "tag": "v1", "commit": commit })),
        None,
        Err("set exactly one of tag and commit"),
    );
    check(
        &version(json!({})),
        None,
        Err("set exactly one of tag and commit"),
    );
    check(
        &version(json!({ "commit": &commit[..12] })),
        None,
        Err("should be at least 40 chars long"),
    );
    check(
        &version(json!({ "commit": commit.to_uppercase() })),
        None,
        Err("should match"),
    );
}

#[test]
fn modules_are_called_by_dns_labels() {
    let named = |kind: &str, name: &str| {
        let object = with(module(), "/metadata/name", json!(name));
        with(object, "/kind", json!(kind))
    };
    for kind in ["Module", "BootstrapModule"] {
        check(&named(kind, &"a".repeat(63)), None, Ok(()));
        check(&named(kind, "a.b"), None, Err("must be a DNS label"));
        check(&named(kind, &"a".repeat(64)), None, Err("63"));
    }
}

#[test]
fn a_binding_has_one_origin_and_no_secret() {
    let bind = |value| with(module(), "/spec/controlPlaneBindings", json!([value]));
    let field =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "facts", "fieldPath": "/data/host" });
    let secret = with(field.clone(), "/kind", json!("Secret"));
    check(&bind(json!({ "name": "A", "value": "" })), None, Ok(()));
    check(
        &bind(json!({ "name": "A", "objectFieldRef": field })),
        None,
        Ok(()),
    );
    check(
        &bind(json!({ "name": "A" })),
        None,
        Err("set exactly one of value and objectFieldRef"),
    );
    check(
        &bind(json!({ "name": "A", "value": "", "objectFieldRef": field })),
        None,
        Err("set exactly one of value"),
    );
    check(
        &bind(json!({ "name": "A", "objectFieldRef": secret })),
        None,
        Err("kind Secret cannot be read"),
    );
    check(
        &bind(json!({ "name": "1A", "value": "" })),
        None,
        Err("should match"),
    );
    let twice = with(
        module(),
        "/spec/controlPlaneBindings",
        json!([{ "name": "A", "value": "" }, { "name": "A", "value": "" }]),
    );
    check(&twice, None, Err("Duplicate value"));
}

#[test]
fn a_cluster_may_try_twice_within_its_deadline() {
    let package = |value| with(module(), "/spec/sync/package", value);
    let words = "together must be shorter than rollout.deadlines.progress";
    check(&package(json!({ "timeout": "8m59s" })), None, Ok(()));
    check(&package(json!({ "timeout": "9m" })), None, Err(words));
    check(
        &with(module(), "/spec/rollout/deadlines/progress", json!("6m")),
        None,
        Err(words),
    );
    check(
        &with(
            package(json!({ "timeout": "1h" })),
            "/spec/rollout/deadlines/progress",
            json!("1h30m"),
        ),
        None,
        Ok(()),
    );
    check(&package(json!({ "timeout": "9 m" })), None, Err("should match"));
}

#[test]
fn variables_have_names() {
    let substitute = |value| with(module(), "/spec/sync/package/substitute", value);
    check(&substitute(json!({ "REGION": "$(REGION)" })), None, Ok(()));
    check(
        &substitute(json!({ "1st": "" })),
        None,
        Err("does not begin with a digit"),
    );
}

#[test]
fn amounts_are_counts_or_percentages() {
    let limit = |value| with(module(), "/spec/rollout/maxUnreadyClusters", value);
    for good in [json!(0), json!(100_000), json!("3"), json!("0%"), json!("100%")] {
        check(&limit(good), None, Ok(()));
    }
    for (bad, words) in [
        (json!(-1), "greater than or equal to 0"),
        (json!("101%"), "match"),
        (json!("x"), "match"),
    ] {
        check(&limit(bad), None, Err(words));
    }
}

#[test]
fn a_token_never_falls() {
    for kind in ["ProxyAssemblage", "RemoteAssemblage", "Assemblage"] {
        let rows = |rows: Value| assemblage(kind, rows);
        let row = |token: u64| json!({ "name": "app", "source": source(), "token": token });
        let other = json!({ "name": "other", "source": source(), "token": 1 });
        let held = rows(json!([row(17), other]));
        check(&held, None, Ok(()));
        check(&rows(json!([other, row(17)])), Some(&held), Ok(()));
        check(&rows(json!([row(18), other])), Some(&held), Ok(()));
        check(
            &rows(json!([row(16), other])),
            Some(&held),
            Err("a row's token never falls"),
        );
        check(
            &rows(json!([other, row(16)])),
            Some(&held),
            Err("a row's token never falls"),
        );
        check(
            &rows(json!([other, { "name": "app", "source": source() }])),
            Some(&held),
            Err("never falls"),
        );
        let withdrawn = rows(json!([{ "name": "app", "token": 18, "withdraw": "Prune" }]));
        check(&withdrawn, Some(&held), Ok(()));
        check(
            &rows(json!([{ "name": "app", "token": 17, "withdraw": "Prune" }])),
            Some(&withdrawn),
            Err("never falls"),
        );
        check(
            &rows(json!([{ "name": "app", "token": 17 }])),
            Some(&withdrawn),
            Err("never falls"),
        );
        check(
            &rows(json!([{ "name": "app", "token": 18 }])),
            Some(&withdrawn),
            Ok(()),
        );
        let exact = |token: u64| rows(json!([{ "name": "app", "token": token }]));
        check(&exact(MAX_TOKEN), Some(&withdrawn), Ok(()));
        check(
            &exact(MAX_TOKEN + 1),
            Some(&withdrawn),
            Err("should be less than or equal to 9007199254740991"),
        );
        let without = rows(json!([{ "name": "app", "source": source() }]));
        check(&rows(json!([row(1)])), Some(&without), Ok(()));
        check(
            &rows(json!([{ "name": "app", "token": 1 }, { "name": "app", "token": 2 }])),
            None,
            Err("Duplicate value"),
        );
    }
}

#[test]
fn a_row_is_carried_out_withdrawn_or_bare() {
    let row = |value| assemblage("ProxyAssemblage", json!([value]));
    check(
        &row(json!({ "name": "a", "source": source(), "package": {} })),
        None,
        Ok(()),
    );
    check(&row(json!({ "name": "a", "token": 1 })), None, Ok(()));
    check(
        &row(json!({ "name": "a", "withdraw": "Orphan", "source": source() })),
        None,
        Err("has no source"),
    );
    check(
        &row(json!({ "name": "a", "package": {} })),
        None,
        Err("needs a source"),
    );
    check(
        &row(json!({ "name": "a", "withdraw": "Delete" })),
        None,
        Err("withdraw"),
    );
}

#[test]
fn an_assemblage_is_of_one_cluster_for_ever() {
    let object = |spec: Value| with(assemblage("RemoteAssemblage", json!([])), "/spec", spec);
    let cluster = |name: &str| object(json!({ "clusterRef": { "name": name }, "syncs": [] }));
    let secret = |name: &str| object(json!({ "kubeconfigRef": { "name": name }, "syncs": [] }));
    let one = "set exactly one of clusterRef and kubeconfigRef";
    check(&object(json!({ "syncs": [] })), None, Err(one));
    check(
        &with(cluster("a"), "/spec/kubeconfigRef", json!({ "name": "b" })),
        None,
        Err(one),
    );
    check(&cluster("a"), Some(&cluster("a")), Ok(()));
    check(&cluster("b"), Some(&cluster("a")), Err("clusterRef is immutable"));
    check(&secret("a"), Some(&cluster("a")), Err("clusterRef is immutable"));
    check(
        &secret("b"),
        Some(&secret("a")),
        Err("kubeconfigRef is immutable"),
    );
}

#[test]
fn a_revision_is_immutable_and_its_story_is_not() {
    let revision = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ModuleRevision", "metadata": { "name": "app-1" },
        "spec": {
            "moduleRef": { "kind": "Module", "name": "app" },
            "revision": "0".repeat(64), "commit": "0".repeat(40), "sync": { "source": source() },
        },
    });
    let stored = admit(&revision, None).unwrap();
    check(&revision, Some(&stored), Ok(()));
    check(
        &with(revision.clone(), "/status/verdict", json!("Good")),
        Some(&stored),
        Ok(()),
    );
    let forced = with(revision, "/spec/sync/package/force", json!(true));
    check(&forced, Some(&stored), Err("a ModuleRevision is immutable"));
}

#[test]
fn gates_can_be_evaluated() {
    let http = |edit: Value| {
        let mut http = json!({ "url": "https://a.test/x?q=1", "jsonPath": "$.v", "op": "<", "value": "0.5" });
        http.as_object_mut()
            .unwrap()
            .extend(edit.as_object().unwrap().clone());
        json!({ "http": http })
    };
    let condition = |kind: &str| json!({ "condition": { "apiVersion": "v1", "kind": kind, "name": "a", "type": "Ready" } });
    let gate = |gate: Value| {
        let stage = json!({ "name": "a", "selector": {}, "gates": [gate] });
        with(module(), "/spec/rollout/stages", json!([stage]))
    };
    let also = |mut gate: Value, field: &str, value: Value| {
        gate[field] = value;
        gate
    };
    for fine in [
        http(json!({})),
        http(json!({ "url": "http://127.0.0.1:9090/x" })),
        http(json!({ "op": "==", "value": "green" })),
        http(json!({ "op": ">=", "value": "-1.5e-3" })),
        http(json!({ "value": ".5" })),
        condition("Pod"),
        also(condition("Pod"), "interval", json!("1s")),
        also(condition("Pod"), "timeout", json!("1m")),
    ] {
        check(&gate(fine), None, Ok(()));
    }
    let form = "set exactly one of http and condition";
    let number = "value must be a number where op is <, <=, > or >=";
    let both = also(
        http(json!({})),
        "condition",
        condition("Pod")["condition"].clone(),
    );
    for (bad, words) in [
        (json!({}), form),
        (both, form),
        (http(json!({ "value": "green" })), number),
        (http(json!({ "value": "" })), number),
        (http(json!({ "op": ">", "value": "NaN" })), number),
        (
            http(json!({ "url": "ftp://a.test/x" })),
            "url must begin with https://",
        ),
        (http(json!({ "jsonPath": "v" })), "jsonPath"),
        (http(json!({ "op": "=" })), "op"),
        (condition("Secret"), "Secrets are not read by gates"),
        (
            also(condition("Pod"), "interval", json!("999ms")),
            "interval must be from 1s to 24h",
        ),
        (
            also(condition("Pod"), "interval", json!("25h")),
            "interval must be from 1s to 24h",
        ),
        (
            also(condition("Pod"), "timeout", json!("99ms")),
            "timeout must be from 100ms to 1m",
        ),
        (
            also(condition("Pod"), "timeout", json!("2m")),
            "timeout must be from 100ms to 1m",
        ),
        (also(condition("Pod"), "passes", json!(0)), "passes"),
        (also(condition("Pod"), "onNoData", json!("Ignore")), "onNoData"),
    ] {
        check(&gate(bad), None, Err(words));
    }
}

fn window(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "RolloutWindow", "metadata": { "name": "night" },
        "spec": { "selector": {} },
    });
    object["spec"]
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    object
}

#[test]
fn a_window_allows_or_denies() {
    check(&window(json!({ "allow": [{}] })), None, Ok(()));
    check(&window(json!({ "deny": [{}] })), None, Ok(()));
    let either = "set either allow or deny";
    check(&window(json!({})), None, Err(either));
    check(&window(json!({ "allow": [{}], "deny": [{}] })), None, Err(either));
    check(&window(json!({ "allow": [] })), None, Err("spec.allow"));
    check(
        &window(json!({ "deny": vec![json!({}); 33] })),
        None,
        Err("spec.deny"),
    );
    let mut without = window(json!({ "deny": [{}] }));
    without["spec"].as_object_mut().unwrap().remove("selector");
    check(&without, None, Err("selector"));
}

#[test]
fn an_entry_of_a_window_is_checked_where_it_can_be() {
    let entry = |entry: Value| window(json!({ "allow": [entry] }));
    for fine in [
        json!({ "days": ["Sat", "Sun"], "from": "22:00", "to": "04:00", "timeZone": "Europe/Berlin" }),
        json!({ "from": "20:00", "to": "24:00", "timeZoneFrom": { "annotation": "example.com/zone" } }),
        json!({ "dates": "2026-12-20/2027-01-03", "timeZone": "America/Argentina/Buenos_Aires" }),
        json!({ "dates": "2026-12-24/2026-12-24", "timeZone": "Etc/GMT+3" }),
        json!({ "timeZone": "UTC" }),
    ] {
        check(&entry(fine), None, Ok(()));
    }
    for (bad, says) in [
        (json!({ "days": [], "timeZone": "UTC" }), "days"),
        (json!({ "days": ["Mon", "Mon"], "timeZone": "UTC" }), "days"),
        (json!({ "days": ["Monday"], "timeZone": "UTC" }), "days"),
        (
            json!({ "from": "22:00", "timeZone": "UTC" }),
            "set both from and to",
        ),
        (
            json!({ "to": "22:00", "timeZone": "UTC" }),
            "set both from and to",
        ),
        (
            json!({ "from": "22:00", "to": "22:00", "timeZone": "UTC" }),
            "from and to must differ",
        ),
        (
            json!({ "from": "24:00", "to": "02:00", "timeZone": "UTC" }),
            "from",
        ),
        (json!({ "from": "22:00", "to": "24:01", "timeZone": "UTC" }), "to"),
        (
            json!({ "from": "9:00", "to": "10:00", "timeZone": "UTC" }),
            "from",
        ),
        (json!({ "dates": "2026-12-20", "timeZone": "UTC" }), "dates"),
        (
            json!({ "dates": "2027-01-03/2026-12-20", "timeZone": "UTC" }),
            "dates must not end before they start",
        ),
        (json!({ "days": ["Mon"] }), "need timeZone or timeZoneFrom"),
        (
            json!({ "from": "22:00", "to": "23:00" }),
            "need timeZone or timeZoneFrom",
        ),
        (
            json!({ "dates": "2026-12-20/2027-01-03" }),
            "need timeZone or timeZoneFrom",
        ),
        (
            json!({ "timeZone": "UTC", "timeZoneFrom": { "annotation": "zone" } }),
            "set either timeZone or timeZoneFrom",
        ),
        (json!({ "timeZone": "../etc/localtime" }), "timeZone"),
        (json!({ "timeZoneFrom": {} }), "annotation"),
    ] {
        check(&entry(bad), None, Err(says));
    }
}

#[test]
fn a_bypass_ends() {
    let bypass = |bypass: Value| window(json!({ "deny": [{}], "bypasses": [bypass] }));
    let fine = json!({ "module": { "name": "web" }, "reason": "INC-7", "until": "2026-12-21T10:00:00Z", "by": "ann" });
    check(&bypass(fine.clone()), None, Ok(()));
    for field in ["until", "reason", "module"] {
        let mut bad = fine.clone();
        bad.as_object_mut().unwrap().remove(field);
        check(&bypass(bad), None, Err(field));
    }
    let mut null = fine;
    null["until"] = Value::Null;
    check(&bypass(null), None, Err("until"));
}
