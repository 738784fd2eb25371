//! Promise: what a node gets is a pure function of the revision, the parts that select it and its values, and the
//! digest is different for different results; an invalid NodeModule is rejected field by field.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::node::{
    content::NodeContent,
    module::{NodeModule, NodeModuleSpec},
    render::{self, Piece, RenderError, Rendered},
    revision,
    validate::{self, PathProblem},
};
use serde_json::{Value, json};

use crate::support::admit;

fn content(value: Value) -> NodeContent {
    serde_json::from_value(value).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn file(path: &str, text: &str) -> Value {
    json!({"path": path, "content": text})
}

/// What a node with these labels gets.
fn rendered(
    content: &NodeContent,
    node: &str,
    node_labels: &[(&str, &str)],
) -> Result<Rendered, RenderError> {
    let node_labels = labels(node_labels);
    let parts = render::matching_parts(content, &node_labels).unwrap();
    render::render(content, &parts, &render::given(node, &node_labels))
}

fn text(rendered: &Rendered, path: &str) -> Option<Vec<Piece>> {
    let file = rendered.files.iter().find(|file| file.path == path).unwrap();
    file.content.clone()
}

#[test]
fn parts_are_merged_in_order_for_the_nodes_that_each_selects() {
    let content = content(json!({"parts": [
        {"files": [file("/etc/a", "all"), file("/etc/b", "all")]},
        {"selector": {"matchLabels": {"rack": "r1"}}, "files": [file("/etc/a", "rack $(NODE_LABEL_rack)")]},
        {"selector": {"matchLabels": {"rack": "r2"}}, "files": [{"path": "/etc/b", "state": "Absent"}, file("/etc/c", "")]},
    ]}));
    let paths = |rendered: &Rendered| {
        let paths = rendered.files.iter().map(|file| file.path.clone());
        paths.collect::<Vec<_>>().join(" ")
    };
    let one = rendered(&content, "n1", &[("rack", "r1")]).unwrap();
    let two = rendered(&content, "n2", &[("rack", "r2")]).unwrap();
    let none = rendered(&content, "n3", &[]).unwrap();
    assert_eq!(
        [&one, &two, &none].map(paths),
        ["/etc/a /etc/b", "/etc/a /etc/b /etc/c", "/etc/a /etc/b"]
    );
    assert_eq!(
        text(&one, "/etc/a"),
        Some(vec![Piece::Text("rack r1".to_owned())])
    );
    assert_eq!((text(&two, "/etc/b"), text(&two, "/etc/c")), (None, Some(vec![])));
    assert_eq!(text(&none, "/etc/a"), Some(vec![Piece::Text("all".to_owned())]));
    assert_ne!(one.digest(), none.digest());
}

#[test]
fn secrets_stay_names_and_no_value_becomes_a_variable() {
    let content = content(json!({"parts": [{"files": [
        file("/etc/a", "$$(X) $(V)$(SECRET_key) $(SECRET_key)$(NODE_NAME)"),
    ]}]}));
    let values = labels(&[("V", "$$(SECRET_other)"), ("NODE_NAME", "n1")]);
    let rendered = render::render(&content, &BTreeSet::from([0]), &values).unwrap();
    let expect = [
        Piece::Text("$(X) $$(SECRET_other)".to_owned()),
        Piece::Secret("key".to_owned()),
        Piece::Text(" ".to_owned()),
        Piece::Secret("key".to_owned()),
        Piece::Text("n1".to_owned()),
    ];
    assert_eq!(text(&rendered, "/etc/a"), Some(expect.to_vec()));
    assert_eq!(
        render::used(&content, &BTreeSet::from([0])).unwrap(),
        BTreeSet::from(["V".to_owned(), "NODE_NAME".to_owned()])
    );
}

#[test]
fn a_digest_is_about_what_the_node_gets() {
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut value = json!({
            "parts": [{"files": [{"path": "/etc/a", "mode": "0600", "owner": "frr", "group": "frr", "content": "x"}]}],
            "reload": ["netplan", "frr"],
            "checks": {"interfaces": ["eth*"], "tcp": ["10.0.0.1:179"], "services": ["frr"], "apiServer": true},
            "settle": "10s", "holdFor": "15s", "confirmWithin": "2m",
        });
        edit(&mut value);
        content(value)
    };
    let digest = |content: &NodeContent| {
        let parts = render::matching_parts(content, &BTreeMap::new()).unwrap();
        render::render(content, &parts, &labels(&[("NODE_NAME", "n1")]))
            .unwrap()
            .digest()
    };
    let same = with(&|_| ());
    let edits: [(&str, Value); 11] = [
        ("/parts/0/files/0/path", json!("/etc/b")),
        ("/parts/0/files/0/mode", json!("0644")),
        ("/parts/0/files/0/owner", json!("root")),
        ("/parts/0/files/0/group", json!("root")),
        ("/parts/0/files/0/content", json!("y")),
        ("/reload", json!(["frr", "netplan"])),
        ("/checks/tcp/0", json!("10.0.0.2:179")),
        ("/checks/apiServer", json!(false)),
        ("/settle", json!("11s")),
        ("/holdFor", json!("16s")),
        ("/confirmWithin", json!("3m")),
    ];
    let mut digests = BTreeSet::from([digest(&same)]);
    let mut revisions = BTreeSet::from([revision::content_revision(&same)]);
    for (pointer, value) in &edits {
        let changed = with(&|of| *of.pointer_mut(pointer).unwrap() = value.clone());
        assert!(digests.insert(digest(&changed)), "{pointer}");
        assert!(
            revisions.insert(revision::content_revision(&changed)),
            "{pointer}"
        );
    }
    // Another notation with the same content.
    let otherwise = with(&|of| {
        of["settle"] = json!("10000ms");
        of["parts"][0]["files"][0]["state"] = json!("Present");
        of["bindings"] = json!([]);
    });
    assert_eq!(
        revision::content_revision(&otherwise),
        revision::content_revision(&same)
    );
    // A part that selects only another node does not change what this node gets.
    let elsewhere = with(&|of| {
        let part = json!({"selector": {"matchLabels": {"rack": "r9"}}, "files": [file("/etc/z", "z")]});
        of["parts"].as_array_mut().unwrap().push(part);
    });
    assert_eq!(digest(&elsewhere), digest(&same));
}

#[test]
fn a_node_that_cannot_be_rendered_says_why() {
    let check = |text: &str, expect: &str| {
        let content = content(json!({"parts": [{"files": [file("/etc/a", text)]}]}));
        let error = rendered(&content, "n1", &[]).unwrap_err();
        assert_eq!(error.to_string(), expect);
    };
    check(
        "$(NODE_LABEL_rack)",
        "/etc/a uses $(NODE_LABEL_rack), which is neither a built-in variable nor a binding; there are NODE_NAME",
    );
    check(
        "$(",
        "/etc/a has $( without a name and ): write $$( for the characters $(",
    );
    let empty = content(json!({"parts": []}));
    assert_eq!(
        render::render(&empty, &BTreeSet::from([3]), &BTreeMap::new()),
        Err(RenderError::NoPart(3))
    );
}

#[test]
fn paths() {
    for (path, expect) in [
        ("/etc/a", Ok(())),
        ("/etc/with blank", Ok(())),
        ("etc/a", Err(PathProblem::NotAbsolute)),
        ("", Err(PathProblem::NotAbsolute)),
        ("/", Err(PathProblem::NotAbsolute)),
        ("/etc//a", Err(PathProblem::Part)),
        ("/etc/", Err(PathProblem::Part)),
        ("/etc/../a", Err(PathProblem::Part)),
        ("/etc/..", Err(PathProblem::Part)),
        ("/etc/./a", Err(PathProblem::Part)),
        ("/etc/..a", Ok(())),
        ("/etc/$(NODE_NAME)", Err(PathProblem::Variable)),
        ("/etc/a\nb", Err(PathProblem::Control)),
        ("/etc/a\0b", Err(PathProblem::Control)),
    ] {
        assert_eq!(validate::check_path(path), expect, "{path:?}");
    }
}

#[test]
fn what_is_wrong_is_named_field_by_field() {
    let check = |edit: &dyn Fn(&mut Value), expect: &[&str]| {
        let mut spec = json!({
            "selector": {},
            "parts": [{"files": [file("/etc/a", "$(NODE_NAME) $(NODE_LABEL_rack) $(SECRET_key) $(MTU)")]}],
            "bindings": [{"name": "MTU", "value": "9000"}],
        });
        edit(&mut spec);
        let spec: NodeModuleSpec = serde_json::from_value(spec).unwrap();
        let found = validate::validate_node_module("fabric", &spec);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expect);
    };
    check(&|_| (), &[]);
    check(
        &|spec| spec["parts"][0]["files"][0]["mode"] = json!("4755"),
        &[r#"spec.parts[0].files[0].mode: "4755" is not four octal digits, the first of which is 0"#],
    );
    check(
        &|spec| spec["parts"][0]["files"] = json!([file("/etc/a", ""), file("/etc/a", "")]),
        &["spec.parts[0].files[1].path: /etc/a occurs twice"],
    );
    check(
        &|spec| spec["parts"][0]["files"] = json!([file("/etc/a", ""), file("/etc/a/b/c", "")]),
        &["spec.parts[0].files[1].path: /etc/a/b/c is below /etc/a, which is a file of this NodeModule"],
    );
    check(
        &|spec| spec["parts"][0]["files"][0] = json!({"path": "/etc/a"}),
        &[r#"spec.parts[0].files[0].content: is required: "" is an empty file"#],
    );
    check(
        &|spec| spec["parts"][0]["files"][0]["state"] = json!("Absent"),
        &["spec.parts[0].files[0].content: a file with state Absent must not have content"],
    );
    check(
        &|spec| spec["parts"][0]["files"][0]["content"] = json!("$(MTV)"),
        &[
            "spec.parts[0].files[0].content: uses $(MTV), which is neither built in (NODE_NAME, NODE_LABEL_<key>, SECRET_<name>) nor a binding",
        ],
    );
    check(
        &|spec| spec["holdFor"] = json!("2m"),
        &[
            "spec.confirmWithin: settle (10s) and holdFor (2m) together must be shorter than confirmWithin (2m), or no change can be confirmed",
        ],
    );
    check(
        &|spec| spec["rollout"] = json!({"deadlines": {"progress": "4m"}}),
        &[
            "spec.rollout.deadlines.progress: must be more than twice as long as confirmWithin (2m): a node restores what it had, and reports, within that time",
        ],
    );
    check(
        &|spec| {
            spec["parts"][0]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        },
        &[
            "spec.parts[0].selector: operator \"Near\" of key \"a\" does not exist: use In, NotIn, Exists or DoesNotExist",
        ],
    );
    check(
        &|spec| spec["parts"][0]["files"][0]["content"] = json!("x".repeat(300_000)),
        &["spec.parts: the total content is 300223 bytes, more than 262144: split the NodeModule"],
    );
}

/// An API server rejects the same at admission, and stores the defaults.
#[test]
fn admission() {
    let object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "NodeModule", "metadata": {"name": "fabric"},
        "spec": {"parts": [{"files": [file("/etc/a", "x")]}]},
    });
    let stored = admit(&object, None).unwrap();
    let read: NodeModule = serde_json::from_value(object.clone()).unwrap();
    let written: NodeModule = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(
        read, written,
        "the defaults of the definition are those of the types"
    );
    let stored = &stored["spec"];
    let rollout = &stored["rollout"];
    assert_eq!(
        (&stored["settle"], &stored["confirmWithin"]),
        (&json!("10s"), &json!("2m"))
    );
    assert_eq!(
        (&rollout["onUnreachable"], &rollout["maxUnreadyNodes"]),
        (&json!("Wait"), &json!(1))
    );
    for (pointer, value, expect) in [
        (
            "/spec/parts/0/files/0/path",
            json!("/etc/../a"),
            "path must not contain . or .. as a segment",
        ),
        ("/spec/parts/0/files/0/path", json!("etc/a"), "path"),
        ("/spec/parts/0/files/0/mode", json!("4755"), "mode"),
        (
            "/spec/parts/0/files/0/state",
            json!("Absent"),
            "a file with state Absent must not have content",
        ),
        ("/spec/parts/0/files/0/owner", json!("root:x"), "owner"),
        (
            "/spec/confirmWithin",
            json!("2h"),
            "confirmWithin must be from 1s to 1h",
        ),
        (
            "/spec/holdFor",
            json!("2m"),
            "settle and holdFor together must be shorter than confirmWithin",
        ),
        (
            "/spec/rollout",
            json!({"deadlines": {"progress": "3m"}}),
            "more than twice as long as confirmWithin",
        ),
        ("/spec/checks", json!({"tcp": ["router:179"]}), "tcp"),
        ("/spec/checks", json!({"interfaces": ["a/b"]}), "interfaces"),
        ("/spec/reload", json!(["netplan apply"]), "reload"),
        (
            "/spec/bindings",
            json!([{"name": "SECRET_x", "value": "y"}]),
            "names that begin with SECRET_ or NODE_ are reserved",
        ),
        ("/spec/drift", json!("Correct"), "drift"),
    ] {
        let mut wrong = object.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        wrong.pointer_mut(parent).unwrap()[field] = value;
        let causes = admit(&wrong, None).expect_err(pointer).join("\n");
        assert!(causes.contains(expect), "{pointer}: {causes}");
    }
}
