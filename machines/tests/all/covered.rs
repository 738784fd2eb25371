//! Promise: "in place" is answered only for a change that the updaters can make together, and the answer contains
//! exactly that change.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use muster_machines::{Coverage, Covered, Level, Objects, Part, can_answer};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

fn covered(coverage: Coverage) -> (Vec<String>, Vec<(Part, muster_machines::Patch)>) {
    match coverage.end() {
        Covered::InPlace { steps, patches, .. } => (steps, patches),
        Covered::NotCovered(left) => panic!("{left:?}"),
    }
}

/// R29: the changes of updaters are applied one after the other to whole objects.
#[test]
fn two_updaters_that_cover_half_each() {
    let mut coverage = Coverage::begin(Level::Machine, &request(("v1.30.0", "a"), ("v1.31.0", "b"))).unwrap();
    let version = sets("machinePatch", "/spec/version", "v1.31.0");
    assert!(coverage.take("kubelet", &version).unwrap());
    assert!(coverage.is_open(), "half is left");
    // An updater that covers only what is already covered is not part of the plan.
    assert!(!coverage.take("another", &version).unwrap());
    assert!(
        coverage
            .take("image", &sets("infrastructureMachinePatch", "/spec/hello", "b"))
            .unwrap()
    );
    assert!(coverage.is_reached());
    let (steps, patches) = covered(coverage);
    assert_eq!(steps, ["kubelet", "image"]);
    assert_eq!(patches.len(), 2);
}

#[test]
fn what_is_left_is_named_with_its_field() {
    let mut coverage = Coverage::begin(Level::Machine, &request(("v1.30.0", "a"), ("v1.31.0", "b"))).unwrap();
    coverage
        .take("kubelet", &sets("machinePatch", "/spec/version", "v1.31.0"))
        .unwrap();
    let Covered::NotCovered(left) = coverage.end() else {
        panic!()
    };
    let [difference] = &left[..] else {
        panic!("{left:?}")
    };
    assert_eq!(
        (difference.kind.as_str(), &difference.fields[..]),
        ("TestMachine", &["/hello".to_owned()][..])
    );
}

#[test]
fn a_patch_that_goes_elsewhere_covers_nothing() {
    let mut coverage = Coverage::begin(Level::Machine, &request(("v1.30.0", "a"), ("v1.31.0", "a"))).unwrap();
    for path in ["/status/phase", "/metadata/name", "/kind"] {
        let answer = json!([{"op": "add", "path": path, "value": "x"}]);
        let body = json!({"status": "Success", "machinePatch": {"patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(answer.to_string())}});
        let answer = can_answer(Level::Machine, Ok((200, body.to_string().as_bytes()))).unwrap();
        // `/status` is not sent, so a patch below it fails.
        assert!(!coverage.take("liar", &answer).unwrap_or(false), "{path}");
    }
    assert!(!coverage.is_reached());
}

#[test]
fn a_field_that_no_side_has_is_lost() {
    let mut coverage = Coverage::begin(Level::Machine, &request(("v1.30.0", "a"), ("v1.30.0", "a"))).unwrap();
    let document = json!([{"op": "add", "path": "/spec/unknown", "value": 1}]).to_string();
    let body = json!({"status": "Success", "machinePatch": {"patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(document)}});
    let answer = can_answer(Level::Machine, Ok((200, body.to_string().as_bytes()))).unwrap();
    assert!(
        !coverage.take("updater", &answer).unwrap(),
        "Cluster API would drop it"
    );
    assert!(coverage.is_reached());
}

#[test]
fn an_answer_of_which_one_patch_is_wrong_is_not_taken_in_half() {
    let mut coverage = Coverage::begin(Level::Machine, &request(("v1.30.0", "a"), ("v1.31.0", "b"))).unwrap();
    let good = BASE64_STANDARD.encode(r#"[{"op":"replace","path":"/spec/version","value":"v1.31.0"}]"#);
    let wrong = BASE64_STANDARD.encode(r#"[{"op":"remove","path":"/spec/none"}]"#);
    let body = json!({"status": "Success",
        "machinePatch": {"patchType": "JSONPatch", "patch": good},
        "infrastructureMachinePatch": {"patchType": "JSONPatch", "patch": wrong}});
    let answer = can_answer(Level::Machine, Ok((200, body.to_string().as_bytes()))).unwrap();
    coverage.take("half", &answer).unwrap_err();
    assert_eq!(
        coverage.sides()["current"]["machine"]["spec"]["version"],
        "v1.30.0"
    );
}

#[test]
fn a_request_without_its_objects_is_refused_by_name() {
    for (side, object) in [("current", "machine"), ("desired", "infrastructureMachine")] {
        let mut request = request(("v1.30.0", "a"), ("v1.31.0", "a"));
        request[side][object] = Value::Null;
        let error = Coverage::begin(Level::Machine, &request).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{side}.{object} is missing or is not an object")
        );
    }
}

fn spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(1)),
        Just(json!("x")),
        Just(json!(null)),
        Just(json!([1, 2])),
        Just(json!({}))
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::btree_map("[a-c~/]", inner, 0..3).prop_map(|map| json!(map))
    })
    .prop_map(|value| json!({"a": value}))
}

proptest! {
    /// Cluster API applies the answer to the current objects and compares the result with the desired ones: they must
    /// be equal.
    #[test]
    fn the_answer_leads_from_current_to_desired(current in spec(), desired in spec()) {
        let side = |spec: &Value| json!({"machine": {"kind": "Machine", "spec": {}}, "infrastructureMachine": {"kind": "T", "spec": spec}});
        let request = json!({"current": side(&current), "desired": side(&desired)});
        let mut coverage = Coverage::begin(Level::Machine, &request).unwrap();
        let patch = json!([{"op": "replace", "path": "/spec", "value": desired}]).to_string();
        let body = json!({"status": "Success", "infrastructureMachinePatch": {"patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(patch)}});
        coverage.take("all", &can_answer(Level::Machine, Ok((200, body.to_string().as_bytes()))).unwrap()).unwrap();
        let (_, patches) = covered(coverage);
        let mut object = side(&current)["infrastructureMachine"].clone();
        for (_, patch) in patches {
            let bytes = BASE64_STANDARD.decode(patch.patch).unwrap();
            let patch: json_patch::Patch = serde_json::from_slice(&bytes).unwrap();
            json_patch::patch(&mut object, &patch).unwrap();
        }
        prop_assert_eq!(&object["spec"], &desired);
    }

    /// Equal content has the same digest, whatever its name; any other compared difference changes it.
    #[test]
    fn digests_are_those_of_what_is_compared(one in spec(), other in spec()) {
        let side = |name: &str, spec: &Value| json!({"machine": {"kind": "Machine", "metadata": {"name": name}, "spec": {"taints": name}}, "infrastructureMachine": {"kind": "T", "spec": spec}});
        let digest = |name: &str, spec: &Value| Objects::read(Level::Machine, &side(name, spec)).unwrap().digest();
        prop_assert_eq!(digest("m1", &one), digest("m2", &one));
        prop_assert_eq!(digest("m1", &one) == digest("m1", &other), one == other);
    }
}
