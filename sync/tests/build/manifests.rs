//! From files to manifests: order, checks, lists, substitution.

use std::collections::BTreeMap;

use muster_sync::build::{BuildOptions, Manifest, build, set_namespace};
use muster_sync::source::{File, Files};

fn files(files: &[(&str, &str)]) -> Files {
    Files::new(files.iter().map(|(path, text)| File {
        path: (*path).to_owned(),
        bytes: text.as_bytes().to_vec().into(),
    }))
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

/// The result of a build, as `location identity`, or the message.
fn built(input: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let manifests = build(&files(input), &BuildOptions::default()).map_err(|errors| errors.to_string())?;
    Ok(manifests
        .iter()
        .map(|manifest| format!("{} {}", manifest.origin, manifest.identity()))
        .collect())
}

#[test]
fn objects_come_in_order_of_path_then_place() {
    let two = format!("# first\n{}---\n---\n{}", config_map("b"), config_map("a"));
    let got = built(&[
        ("z.yaml", &config_map("z")),
        ("a/b.yaml", &two),
        ("a.yaml", &config_map("first")),
    ]);
    let expect = [
        "a.yaml:1:1 ConfigMap first",
        "a/b.yaml:2:1 ConfigMap b",
        "a/b.yaml:8:1 ConfigMap a",
        "z.yaml:1:1 ConfigMap z",
    ];
    assert_eq!(got.unwrap(), expect);
}

/// Files that were concatenated with `cat`, or by an editor that adds a byte order mark to each document.
#[test]
fn a_byte_order_mark_before_a_later_document_is_no_part_of_it() {
    let two = format!("\u{feff}{}---\n\u{feff}{}", config_map("a"), config_map("b"));
    let got = built(&[("a.yaml", &two)]);
    assert_eq!(got.unwrap(), ["a.yaml:1:1 ConfigMap a", "a.yaml:6:1 ConfigMap b"]);
}

#[test]
fn nothing_is_built_of_nothing() {
    assert_eq!(built(&[]), Ok(vec![]));
    assert_eq!(built(&[("a.yaml", "# nothing\n---\n")]), Ok(vec![]));
}

#[test]
fn lists_are_unrolled() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: d, namespace: web}\n";
    assert_eq!(
        built(&[("l.yaml", list)]).unwrap(),
        ["l.yaml:4:3 Secret s", "l.yaml:5:3 Deployment.apps web/d"]
    );
    assert_eq!(built(&[("l.yaml", "kind: ConfigMapList\nitems:\n")]), Ok(vec![]));
    assert_eq!(
        built(&[("l.yaml", "kind: List\nitems: {a: 1}\n")]).unwrap_err(),
        "l.yaml:2:8: items must be a list"
    );
    // A kind that ends in List but has no items is an ordinary object.
    let allow_list = "apiVersion: x/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {}\n";
    assert_eq!(
        built(&[("l.yaml", allow_list)]).unwrap(),
        ["l.yaml:1:1 AllowList.x a"]
    );
}

#[test]
fn lists_are_unrolled_in_lists_too_and_say_what_their_items_are() {
    let nested = "kind: List\nitems:\n- kind: List\n  items:\n  - {apiVersion: v1, kind: A, metadata: {name: a}}\n- {apiVersion: v1, kind: B, metadata: {name: b}}\n";
    assert_eq!(
        built(&[("l.yaml", nested)]).unwrap(),
        ["l.yaml:5:5 A a", "l.yaml:6:3 B b"]
    );
    // The API server lists objects of a typed list without their kind; kubectl infers it.
    let typed = "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: d}\n";
    assert_eq!(
        built(&[("l.yaml", typed)]).unwrap(),
        ["l.yaml:4:3 Deployment.apps d"]
    );
    let half = typed.replace("- metadata", "- apiVersion: v2\n  metadata");
    assert_eq!(
        built(&[("l.yaml", &half)]).unwrap_err(),
        "l.yaml:4:3: kind is missing"
    );
    let untyped = "apiVersion: v1\nkind: List\nitems:\n- metadata: {name: d}\n";
    assert_eq!(
        built(&[("l.yaml", untyped)]).unwrap_err(),
        "l.yaml:4:3: apiVersion is missing"
    );
}

#[test]
fn what_is_no_object_is_named_with_its_place() {
    let check =
        |text: &str, expect: &str| assert_eq!(built(&[("a.yaml", text)]), Err(expect.to_owned()), "{text}");
    check("just text\n", "a.yaml:1:1: the document must be an object");
    check("- a\n- b\n", "a.yaml:1:1: the document must be an object");
    check(
        "kind: A\nmetadata: {name: a}\n",
        "a.yaml:1:1: apiVersion is missing",
    );
    check(
        "---\napiVersion: v1\nmetadata: {name: a}\n",
        "a.yaml:2:1: kind is missing",
    );
    check(
        "apiVersion: v1\nkind: ''\nmetadata: {name: a}\n",
        "a.yaml:2:7: kind is empty",
    );
    check(
        "apiVersion: v1\nkind: A\n",
        "a.yaml:1:1: metadata.name is missing",
    );
    check(
        "apiVersion: v1\nkind: A\nmetadata: [a]\n",
        "a.yaml:3:11: metadata must be a map",
    );
    check(
        "apiVersion: v1\nkind: A\nmetadata: {name: 0123}\n",
        "a.yaml:3:18: metadata.name must be text; quote it",
    );
    check(
        "apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: no}\n",
        "a.yaml:3:32: metadata.namespace must be text; quote it",
    );
    check(
        "apiVersion: v1\nkind: A\nmetadata: {generateName: a-}\n",
        "a.yaml:3:11: metadata.name is missing; generateName would make a new object each time",
    );
    check(
        "apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  labels:\n    a.b/c: yes\n",
        "a.yaml:6:12: metadata.labels.a.b/c must be text; quote it",
    );
    check(
        "apiVersion: v1\nkind: A\nmetadata: {name: a, annotations: none}\n",
        "a.yaml:3:34: metadata.annotations must be a map",
    );
    check("a: 1\na: 2\n", "a.yaml:2:1: duplicate key \"a\", first at 1:1");
}

#[test]
fn two_documents_with_one_identity_are_named_both() {
    let error = built(&[
        ("a.yaml", &config_map("x")),
        ("b.yaml", &format!("---\n{}", config_map("x"))),
    ])
    .unwrap_err();
    assert_eq!(
        error,
        "b.yaml:2:1: ConfigMap x is defined already at a.yaml:1:1; remove one of them, or give it another name or namespace"
    );
    // Another version is the same object, another group is not.
    let v1 = "apiVersion: apps/v1\nkind: D\nmetadata: {name: x}\n";
    assert!(built(&[("a.yaml", v1), ("b.yaml", &v1.replace("/v1", "/v2"))]).is_err());
    assert!(built(&[("a.yaml", v1), ("b.yaml", &v1.replace("apps", "other"))]).is_ok());
}

#[test]
fn all_files_are_checked() {
    let error = built(&[
        ("a.yaml", "x\n"),
        ("b.yaml", &config_map("x")),
        ("c.yaml", "a: [\n"),
        ("d.yaml", "y\n"),
    ]);
    assert_eq!(
        error.unwrap_err(),
        "a.yaml:1:1: the document must be an object; and 2 more"
    );
}

#[test]
fn errors_come_in_the_order_of_files_and_lines() {
    let twins = format!("{}---\n{}", config_map("x"), config_map("x"));
    let input = files(&[("a.yaml", &twins), ("b.yaml", "x\n"), ("c.yaml", "a: [\n")]);
    let errors = build(&input, &BuildOptions::default()).unwrap_err();
    let places: Vec<String> = errors
        .iter()
        .map(|error| error.to_string().chars().take(20).collect())
        .collect();
    assert_eq!(
        places,
        [
            "a.yaml:6:1: ConfigMa",
            "b.yaml:1:1: the docu",
            "c.yaml:2:1: while pa"
        ]
    );
}

#[test]
fn variables_reach_all_objects_that_do_not_refuse() {
    let options = BuildOptions {
        substitute: BTreeMap::from([("N".to_owned(), "3".to_owned())]),
        ..BuildOptions::default()
    };
    let text = "apiVersion: v1\nkind: ConfigMapList\nitems:\n\
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: \"a${N}\"}, data: {x: \"${N}\"}}\n\
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}, data: {x: \"${N} ${M}\"}}\n\
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {kustomize.toolkit.fluxcd.io/substitute: disabled}}, data: {x: \"$$\"}}\n";
    let manifests = build(&files(&[("a.yaml", text)]), &options).unwrap();
    let got: Vec<String> = manifests
        .iter()
        .map(|m| format!("{}={}", m.name(), m.object["data"]["x"]))
        .collect();
    assert_eq!(got, ["a3=\"3\"", "b=\"${N} ${M}\"", "c=\"$$\""]);
    assert!(!format!("{options:?}").contains('3'), "no value in {options:?}");
    let unknown = build(
        &files(&[("a.yaml", "apiVersion: v1\nkind: A\nmetadata:\n  name: ${M}\n")]),
        &options,
    );
    let message = unknown.unwrap_err().to_string();
    assert!(
        message.starts_with("a.yaml:4:9: variable M is not set and has no default (known: N)"),
        "{message}"
    );
}

#[test]
fn the_namespace_is_set_where_the_kind_has_one() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
    let mut manifests = build(&files(&[("a.yaml", text)]), &BuildOptions::default()).unwrap();
    set_namespace(&mut manifests, "target", |gvk| gvk.kind != "Namespace").unwrap();
    let namespaces: Vec<Option<&str>> = manifests.iter().map(Manifest::namespace).collect();
    assert_eq!(namespaces, [Some("target"), None]);
    let twins = config_map("x") + "  namespace: a\n---\n" + &config_map("x") + "  namespace: b\n";
    let mut manifests = build(&files(&[("a.yaml", &twins)]), &BuildOptions::default()).unwrap();
    let error = set_namespace(&mut manifests, "target", |_| true)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("a.yaml:7:1: ConfigMap target/x is defined already at a.yaml:1:1;"),
        "{error}"
    );
}

#[test]
fn what_no_api_server_can_have_is_refused_with_its_place() {
    let object = |api_version: &str, kind: &str, name: &str| {
        format!(
            "apiVersion: '{api_version}'\nkind: '{kind}'\nmetadata:\n  namespace: web\n  name: '{name}'\n"
        )
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    for (api_version, kind, name) in [
        ("v1", "ConfigMap", "a.b-c"),
        ("v1", "Namespace", "web"),
        (rbac, "ClusterRole", "my role"),
        (rbac, "Role", "reader#2?v"),
        (rbac, "RoleBinding", "system:a_b"),
        ("networking.k8s.io/v1", "IPAddress", "2001:db8::1"),
        ("storage.k8s.io/v1", "CSIDriver", "CSI.example.org"),
        ("example.org/v1", "Widget", "Some Widget"),
    ] {
        let built = built(&[("a.yaml", &object(api_version, kind, name))]);
        assert!(built.is_ok(), "{built:?}");
    }
    let wrong = [
        ("v1", "ConfigMap", "settings?v=2"),
        ("v1", "Namespace", "x#blue"),
        ("v1", "Namespace", "a.b"),
        ("v1", "Service", "a.b"),
        ("apps/v1", "Deployment", "my web"),
        ("batch/v1", "Job", "Job"),
        (rbac, "ClusterRole", ".."),
        (rbac, "ClusterRole", "a/b"),
        (rbac, "ClusterRole", "a%2Fb"),
        (rbac, "ClusterRole", "ops__reader"),
        (rbac, "ClusterRole", "a_:b"),
        ("example.org/v1", "Widget", "a__b"),
        ("example.org/v1", "Widget", "."),
        ("v1/../..", "ConfigMap", "a"),
        ("example.org/v1?a", "Widget", "a"),
        ("v1", "Config_Map", "a"),
    ]
    .map(|(api_version, kind, name)| built(&[("a.yaml", &object(api_version, kind, name))]).unwrap_err());
    let elsewhere = object("v1", "ConfigMap", "a").replace("web", "'../kube-system'");
    let wrong = [&wrong[..], &[built(&[("a.yaml", &elsewhere)]).unwrap_err()]].concat();
    insta::assert_snapshot!(wrong.join("\n"));
}
