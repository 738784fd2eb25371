//! The committed table: complete, and correct for well-known types.

use serde_json::json;

use super::table::{Shape, shape_of, table};
use super::{Field, prune_builtin, type_of};

fn field(path: &str) -> &'static Field {
    let (ty, members) = path.split_once(' ').unwrap();
    let mut shape = shape_of(ty).unwrap_or_else(|| panic!("no type {ty}"));
    let mut found = None;
    for member in members.split('.') {
        let mut inner = shape.resolved();
        while let Shape::List(list) = inner {
            inner = list.item.resolved();
        }
        let Shape::Object { fields, .. } = inner else {
            panic!("{path}: {member} is in no object")
        };
        let field = fields
            .get(member)
            .unwrap_or_else(|| panic!("{path}: no {member}"));
        shape = &field.shape;
        found = Some(field);
    }
    found.unwrap()
}

#[test]
fn every_line_is_read_and_every_name_is_there() {
    let text = include_str!("table.txt");
    let fields = text.lines().filter(|line| line.starts_with(' ')).count();
    let read: usize = table()
        .types
        .values()
        .map(|shape| {
            if let Shape::Object { fields, .. } = shape {
                fields.len()
            } else {
                0
            }
        })
        .sum();
    assert_eq!(read, fields);
    for name in text
        .split(['\n', ' '])
        .filter_map(|word| word.split_once('@').map(|(_, name)| name))
    {
        assert!(shape_of(name).is_some(), "{name} is named and not there");
    }
    let kinds: usize = table().kinds.values().map(std::collections::BTreeMap::len).sum();
    assert!(kinds > 90, "{kinds} kinds");
    assert!(text.len() < 200 * 1024, "{} bytes", text.len());
}

#[test]
fn lists_have_the_types_that_the_api_documents() {
    let check = |path: &str, keys: Option<&[&str]>| {
        let Shape::List(list) = &field(path).shape else {
            panic!("{path} is no list")
        };
        assert_eq!(list.associative, keys.is_some(), "{path}");
        assert_eq!(list.keys, keys.unwrap_or_default(), "{path}");
    };
    check(
        "apps.v1.Deployment spec.template.spec.containers",
        Some(&["name"]),
    );
    check(
        "core.v1.PodSpec containers.ports",
        Some(&["containerPort", "protocol"]),
    );
    check("core.v1.PodSpec containers.env", Some(&["name"]));
    check("core.v1.PodSpec containers.volumeMounts", Some(&["mountPath"]));
    check("core.v1.PodSpec containers.args", None);
    check("core.v1.PodSpec volumes", Some(&["name"]));
    check("core.v1.PodSpec tolerations", None);
    check("core.v1.PodSpec imagePullSecrets", Some(&["name"]));
    check("core.v1.Service spec.ports", Some(&["port", "protocol"]));
    check("meta.v1.ObjectMeta ownerReferences", Some(&["uid"]));
    check("meta.v1.ObjectMeta finalizers", Some(&[]));
    check("apps.v1.DeploymentStatus conditions", Some(&["type"]));
    check("core.v1.NamespaceStatus conditions", Some(&["type"]));
    check("rbac.v1.ClusterRole rules", None);
    check("networking.v1.IngressSpec rules", None);
}

#[test]
fn maps_are_atomic_where_the_api_says_so() {
    let atomic = |path: &str| match &field(path).shape {
        Shape::Map { atomic, .. } => *atomic,
        shape @ Shape::Named(_, overridden) => {
            overridden.unwrap_or_else(|| matches!(shape.resolved(), Shape::Object { atomic: true, .. }))
        }
        shape => panic!("{path} is {shape:?}"),
    };
    assert!(atomic("core.v1.Service spec.selector"));
    assert!(atomic("apps.v1.Deployment spec.selector"));
    assert!(atomic("core.v1.PodSpec nodeSelector"));
    assert!(atomic("core.v1.EnvVarSource secretKeyRef"));
    assert!(!atomic("core.v1.ConfigMap data"));
    assert!(!atomic("meta.v1.ObjectMeta labels"));
}

#[test]
fn patch_strategies_are_there() {
    let strategy = |path: &str| field(path).strategy.clone();
    assert_eq!(
        strategy("core.v1.PodSpec containers").merge_key.as_deref(),
        Some("name")
    );
    assert_eq!(
        strategy("core.v1.Service spec.ports").merge_key.as_deref(),
        Some("port")
    );
    assert!(strategy("meta.v1.ObjectMeta finalizers").merge);
    assert_eq!(strategy("meta.v1.ObjectMeta finalizers").merge_key, None);
    assert!(strategy("apps.v1.DeploymentSpec strategy").retain_keys);
    assert!(strategy("core.v1.PodSpec volumes").retain_keys);
    assert!(!strategy("core.v1.PodSpec tolerations").merge);
    assert_eq!(
        field("core.v1.ContainerPort protocol").default,
        Some(json!("TCP"))
    );
    assert!(field("apps.v1.DeploymentSpec selector").required);
}

#[test]
fn kinds_have_their_types() {
    assert_eq!(type_of("apps/v1", "Deployment"), Some("apps.v1.Deployment"));
    assert_eq!(type_of("v1", "Pod"), Some("core.v1.Pod"));
    assert_eq!(
        type_of("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        Some("apiextensions.v1.CustomResourceDefinition")
    );
    assert_eq!(
        type_of("rbac.authorization.k8s.io/v1", "Role"),
        Some("rbac.v1.Role")
    );
    assert_eq!(type_of("v1", "PodList"), None);
    assert_eq!(type_of("example.com/v1", "Pod"), None);
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "bogus": 1, "labels": {"x": "y"}},
        "spec": {"replica": 1, "template": {"spec": {"containers": [{"name": "c", "imag": "x", "resources": {"limits": {"cpu": 1}}}]}}},
    });
    let dropped = prune_builtin("apps.v1.Deployment", &mut deployment);
    assert_eq!(
        dropped,
        [
            "metadata.bogus",
            "spec.replica",
            "spec.template.spec.containers[0].imag"
        ]
    );
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"],
        1
    );
    assert_eq!(deployment["metadata"], json!({"name": "a", "labels": {"x": "y"}}));
}
