//! Promise: a binding has exactly the value that it names, or an error that names the problem; never an empty text
//! instead.

use std::{collections::BTreeMap, sync::Arc};

use muster_api::sync::{Binding, ObjectFieldRef, Package};
use muster_controllers::{
    bindings::BindingKind,
    bindings::{
        Evaluation, Kinds, KnownObjects, ObjectId, Values, evaluate, given, substitute_package, used_by,
    },
};
use serde_json::{Value, json};

fn value(name: &str, text: &str) -> Binding {
    Binding {
        name: name.to_owned(),
        value: Some(text.to_owned()),
        object_field_ref: None,
    }
}

fn field(name: &str, kind: &str, object: &str, path: &str) -> Binding {
    let api_version = if kind == "Cluster" {
        "cluster.x-k8s.io/v1beta2"
    } else {
        "v1"
    };
    Binding {
        name: name.to_owned(),
        value: None,
        object_field_ref: Some(ObjectFieldRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: object.to_owned(),
            field_path: path.to_owned(),
        }),
    }
}

fn eu_1() -> Values {
    let labels = [("env", "prod"), ("topology.kubernetes.io/region", "eu")];
    given(
        "eu-1",
        &labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    )
}

fn id(kind: &str, name: &str) -> ObjectId {
    let api_version = if kind == "Cluster" {
        "cluster.x-k8s.io/v1beta2"
    } else {
        "v1"
    };
    ObjectId {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: None,
        name: name.to_owned(),
    }
}

fn known() -> KnownObjects {
    let facts = json!({"data": {"host": "eu-1.example.org", "port": 8443, "on": true, "none": null, "list": [], "a/b": "slash", "next": "more"}});
    let some = |object: Value| Some(Arc::new(object));
    KnownObjects::from([
        (id("ConfigMap", "eu-1-facts"), some(facts)),
        (id("ConfigMap", "more"), some(json!({"data": {"x": "last"}}))),
        (id("ConfigMap", "gone"), None),
        (id("Cluster", "eu-1"), some(json!({"spec": {"paused": false}}))),
    ])
}

fn check(bindings: &[Binding], expect: Result<&[(&str, &str)], &str>) {
    // The order of the list has no meaning.
    let mut reversed = bindings.to_vec();
    reversed.reverse();
    for bindings in [bindings, &reversed] {
        let found =
            evaluate(bindings, &eu_1(), &Kinds::default(), &known()).map_err(|error| error.to_string());
        let expect: Result<BTreeMap<String, String>, String> = expect
            .map(|values| {
                values
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect()
            })
            .map_err(str::to_owned);
        match (found, expect) {
            // A cycle is named from its first binding, which does depend on the order of the list.
            (Err(found), Err(expect)) if expect.starts_with("the bindings form a cycle") => {
                assert!(found.starts_with("the bindings form a cycle"), "{found}");
            }
            (found, expect) => assert_eq!(found, expect.map(Evaluation::Values)),
        }
    }
}

#[test]
fn values() {
    check(
        &[value("A", "plain"), value("B", "$(A)-$(C)"), value("C", "$(A)!")],
        Ok(&[("A", "plain"), ("B", "plain-plain!"), ("C", "plain!")]),
    );
    check(
        &[value("A", "$(CLUSTER_NAME) in $(CLUSTER_LABEL_env)")],
        Ok(&[("A", "eu-1 in prod")]),
    );
    check(
        &[value("A", "$(CLUSTER_LABEL_topology.kubernetes.io/region)")],
        Ok(&[("A", "eu")]),
    );
    check(&[value("A", "$$(B) costs $5")], Ok(&[("A", "$(B) costs $5")]));
    check(&[value("A", "")], Ok(&[("A", "")]));
}

#[test]
fn fields() {
    let facts = |name: &str, path: &str| field(name, "ConfigMap", "$(CLUSTER_NAME)-facts", path);
    check(
        &[
            facts("H", "/data/host"),
            facts("P", "/data/port"),
            facts("O", "/data/on"),
        ],
        Ok(&[("H", "eu-1.example.org"), ("O", "true"), ("P", "8443")]),
    );
    check(&[facts("A", "/data/a~1b")], Ok(&[("A", "slash")]));
    check(
        &[
            field("X", "ConfigMap", "$(NEXT)", "/data/x"),
            facts("NEXT", "/data/next"),
        ],
        Ok(&[("NEXT", "more"), ("X", "last")]),
    );
    check(
        &[field("P", "Cluster", "$(CLUSTER_NAME)", "/spec/paused")],
        Ok(&[("P", "false")]),
    );
}

#[test]
fn errors_say_what_and_where() {
    check(
        &[value("A", "$(B)"), value("B", "x$(C)"), value("C", "$(A)")],
        Err("the bindings form a cycle: A -> B -> C -> A"),
    );
    check(&[value("A", "$(A)")], Err("the bindings form a cycle: A -> A"));
    check(
        &[value("A", "$(REGOIN)"), value("REGION", "eu")],
        Err(
            "binding A: there is no variable REGOIN; known are A, CLUSTER_LABEL_env, CLUSTER_LABEL_topology.kubernetes.io/region, CLUSTER_NAME, REGION",
        ),
    );
    check(
        &[value("A", "$(B")],
        Err("binding A: `$(` without a name and `)`; write `$$(` for the characters themselves"),
    );
    check(
        &[value("A", "1"), value("A", "2")],
        Err("binding A is defined twice, or has a predefined name"),
    );
    check(
        &[value("CLUSTER_NAME", "other")],
        Err("binding CLUSTER_NAME is defined twice, or has a predefined name"),
    );
    check(
        &[field("A", "ConfigMap", "gone", "/data/x")],
        Err("binding A: ConfigMap gone does not exist"),
    );
    check(
        &[field("A", "ConfigMap", "more", "/data/y")],
        Err("binding A: ConfigMap more has no field /data/y"),
    );
    let facts = |path: &str| field("A", "ConfigMap", "eu-1-facts", path);
    check(
        &[facts("/data/none")],
        Err(
            "binding A: field /data/none of ConfigMap eu-1-facts is null; only strings, numbers and booleans can be bound",
        ),
    );
    check(
        &[facts("/data/list")],
        Err(
            "binding A: field /data/list of ConfigMap eu-1-facts is a list; only strings, numbers and booleans can be bound",
        ),
    );
    check(
        &[facts("/data")],
        Err(
            "binding A: field /data of ConfigMap eu-1-facts is a mapping; only strings, numbers and booleans can be bound",
        ),
    );
    let neither = Binding {
        name: "A".to_owned(),
        value: None,
        object_field_ref: None,
    };
    check(
        &[neither],
        Err("binding A needs exactly one of value and objectFieldRef"),
    );
    let long = "x".repeat(4_000);
    check(
        &[value("A", &long), value("B", "$(A)$(A)")],
        Err("binding B: the value has 8000 bytes, at most 4096 are allowed"),
    );
}

#[test]
fn secrets_and_unlisted_kinds_are_refused() {
    check(
        &[field("A", "Secret", "eu-1-kubeconfig", "/data/value")],
        Err("binding A: kind Secret (v1) is not allowed; allowed are ConfigMap, Cluster"),
    );
    check(
        &[field("A", "Service", "web", "/spec/clusterIP")],
        Err("binding A: kind Service (v1) is not allowed; allowed are ConfigMap, Cluster"),
    );
    // A name that contains variables is validated after their replacement.
    check(
        &[value("K", "Secret"), field("A", "$(K)", "x", "/data/value")],
        Err("binding A: kind Secret (v1) is not allowed; allowed are ConfigMap, Cluster"),
    );
    let listed = |kind: &str| {
        Kinds::new(
            &[BindingKind {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
            }]
            .into(),
        )
    };
    assert!(listed("Service").allow("v1", "Service"));
    assert!(
        !listed("Secret").allow("v1", "Secret"),
        "not even if it is listed"
    );
    assert!(!listed("Service").allow("v2", "Service"));
}

#[test]
fn objects_are_asked_for_before_anything_is_said() {
    let bindings = [
        field("X", "ConfigMap", "$(NEXT)", "/data/x"),
        field("NEXT", "ConfigMap", "$(CLUSTER_NAME)-facts", "/data/next"),
        field("Y", "ConfigMap", "more", "/data/x"),
    ];
    let evaluated = |known: &KnownObjects| evaluate(&bindings, &eu_1(), &Kinds::default(), known).unwrap();
    let first = [id("ConfigMap", "eu-1-facts"), id("ConfigMap", "more")];
    assert_eq!(evaluated(&KnownObjects::new()), Evaluation::Needs(first.into()));
    assert!(matches!(evaluated(&known()), Evaluation::Values(_)));
    // Wide and deep, while nothing is known: linear, not exponential.
    let mut doubling: Vec<Binding> = (0..60)
        .map(|n| value(&format!("V{n}"), &format!("$(V{m})$(V{m})", m = n + 1)))
        .collect();
    doubling.push(field("V60", "ConfigMap", "eu-1-facts", "/data/host"));
    assert!(matches!(
        evaluate(&doubling, &Values::new(), &Kinds::default(), &KnownObjects::new()),
        Ok(Evaluation::Needs(_))
    ));
}

#[test]
fn a_package_gets_its_values() {
    let package: Package = serde_json::from_value(json!({
        "path": "./clusters/$(REGION)", "substitute": {"HOST": "$(HOST):443", "REGION": "literal"}, "targetNamespace": "$(REGION)-apps",
        "healthChecks": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web-$(REGION)", "namespace": "web"}],
    }))
    .unwrap();
    let values = Values::from([
        ("REGION".to_owned(), "eu".to_owned()),
        ("HOST".to_owned(), "h".to_owned()),
    ]);
    let done = substitute_package(&package, &values).unwrap();
    assert_eq!(
        (done.path.as_str(), done.target_namespace.as_deref()),
        ("./clusters/eu", Some("eu-apps"))
    );
    assert_eq!(
        done.substitute,
        BTreeMap::from([
            ("HOST".to_owned(), "h:443".to_owned()),
            ("REGION".to_owned(), "literal".to_owned())
        ])
    );
    assert_eq!(done.health_checks[0].name, "web-eu");
    assert_eq!((done.prune, done.wait), (package.prune, package.wait));
    let error = substitute_package(&package, &Values::new())
        .unwrap_err()
        .to_string();
    assert_eq!(error, "package.path: there is no variable REGION; known are none");
    assert_eq!(
        used_by(&package, &[value("A", "$(CLUSTER_NAME)")]),
        ["CLUSTER_NAME", "HOST", "REGION"].map(str::to_owned).into()
    );
}
