//! The label that forbids downscales, and the object fields that both webhooks read.

use muster_zones::admit::{
    no_downscale::NoDownscale,
    prepare::Prepare,
    scaled::{Scaled, replicas_change},
};
use serde_json::{Value, json};

use super::cluster::{Cluster, request, settings};

fn review(labels: &Value, to: &Value, sub_resource: &str) -> Value {
    let object = |replicas: &Value| {
        let spec = json!({"replicas": replicas});
        if sub_resource == "scale" {
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": spec})
        } else {
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"labels": labels}, "spec": spec})
        }
    };
    json!({"name": "a", "namespace": "test", "subResource": sub_resource, "object": object(to), "oldObject": object(&json!(3)),
        "resource": {"resource": "statefulsets"}})
}

#[test]
fn the_label_forbids_fewer_replicas_and_nothing_else() {
    let forbidden = json!({"grafana.com/no-downscale": "true"});
    for (labels, to, allowed) in [
        (forbidden.clone(), json!(2), false),
        (forbidden.clone(), json!(3), true),
        (forbidden.clone(), json!(4), true),
        (forbidden.clone(), json!(null), true),
        (json!({"grafana.com/no-downscale": "True"}), json!(2), true),
        (json!({}), json!(0), true),
    ] {
        let mut cluster = Cluster::new();
        let answer = cluster.run(&mut NoDownscale::new(request(&review(&labels, &to, ""))));
        assert_eq!(answer.allowed, allowed, "{labels} {to}");
        // For a scale, the parent has the label.
        cluster.sets[0]["metadata"]["labels"] = labels.clone();
        let answer = cluster.run(&mut NoDownscale::new(request(&review(&json!({}), &to, "scale"))));
        assert_eq!(
            answer.allowed || to.is_null(),
            allowed || to.is_null(),
            "scale, {labels} {to}"
        );
        if !allowed {
            assert_eq!(
                answer.message.unwrap(),
                "downscale of statefulsets/a in test from 3 to 2 replicas is not allowed because it has the label 'grafana.com/no-downscale=true'"
            );
        }
    }
}

#[test]
fn what_cannot_be_found_out_is_allowed_with_a_warning() {
    let forbidden = json!({"grafana.com/no-downscale": "true"});
    let cases: [(&str, Value, &str); 5] = [
        (
            "oldObject",
            Value::Null,
            "can't decode old object, allowing the change, err: Object 'Kind' is missing in ''",
        ),
        (
            "object",
            json!({"apiVersion": "my.group/v1", "kind": "Thing"}),
            "can't decode new object, allowing the change, err: no kind \"Thing\" is registered for version \"my.group/v1\"",
        ),
        (
            "oldObject",
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet"}),
            "can't get old replicas, allowing the change, err: unsupported type apps/v1, Kind=DaemonSet (go type *v1.DaemonSet)",
        ),
        (
            "oldObject",
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": "many"}}),
            "can't decode old object, allowing the change, err: spec.replicas is not a number: \"many\"",
        ),
        (
            "oldObject",
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {}}),
            "old/new replicas is nil, allowing the change",
        ),
    ];
    for (key, object, warning) in cases {
        let mut review = review(&forbidden, &json!(2), "");
        review[key] = object;
        let answer = Cluster::new().run(&mut NoDownscale::new(request(&review)));
        assert!(answer.allowed);
        assert_eq!(answer.warnings, [warning]);
    }
    let mut scale = review(&forbidden, &json!(2), "scale");
    scale["name"] = json!("z");
    let answer = Cluster::new().run(&mut NoDownscale::new(request(&scale)));
    assert_eq!(
        answer.warnings,
        ["can't get statefulsets/z in namespace test, allowing the change: z not found"]
    );
    let answer = Cluster::new().run(&mut Prepare::new(request(&scale), settings(), false));
    assert_eq!(
        (answer.allowed, answer.warnings),
        (true, vec!["z not found, allowing the change".to_owned()])
    );
}

#[test]
fn a_scale_without_replicas_has_none_and_a_set_does_not_say() {
    let replicas = |object: Value| Scaled::parse(Some(&object)).map(|object| object.replicas);
    assert_eq!(
        replicas(json!({"apiVersion": "autoscaling/v1", "kind": "Scale"})),
        Ok(Some(0))
    );
    assert_eq!(
        replicas(json!({"apiVersion": "apps/v1", "kind": "StatefulSet"})),
        Ok(None)
    );
    assert_eq!(
        replicas(json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}})),
        Ok(Some(3))
    );
    assert!(replicas(json!({"apiVersion": "apps/v1beta1", "kind": "StatefulSet"})).is_err());
}

#[test]
fn a_parent_need_not_name_its_kind() {
    let scale = request(&review(&json!({}), &json!(2), "scale"));
    let mut cluster = Cluster::new();
    cluster.sets[0]["metadata"]["labels"]["grafana.com/no-downscale"] = json!("true");
    let set = cluster.sets[0].as_object_mut().unwrap();
    set.remove("kind");
    set.remove("apiVersion");
    assert!(!cluster.run(&mut NoDownscale::new(scale.clone())).allowed);
    assert!(cluster.run(&mut Prepare::new(scale, settings(), false)).allowed);
    assert!(
        cluster.done.iter().any(|done| done.starts_with("POST")),
        "its pods are prepared"
    );
}

#[test]
fn only_fewer_replicas_are_a_downscale() {
    for (old, new, is_downscale) in [
        (Some(3), Some(2), true),
        (Some(1), Some(0), true),
        (Some(3), Some(3), false),
        (Some(3), Some(4), false),
        (None, Some(1), false),
        (Some(1), None, false),
        (None, None, false),
    ] {
        assert_eq!(
            replicas_change(old, new).is_none(),
            is_downscale,
            "{old:?} {new:?}"
        );
    }
}
