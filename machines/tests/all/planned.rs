//! Promise: a machine is updated only as planned: each value of the plan is in the object of the machine. Fields that a
//! provider or Cluster API adds are not compared.

use muster_machines::{Level, Objects, deviation};
use serde_json::{Value, json};

use crate::support::*;

fn with(side: &Value, object: &str, spec: &Value) -> Value {
    let mut side = side.clone();
    side[object] = json!({"kind": "X", "metadata": {"name": "m1"}, "spec": spec});
    side
}

fn deviates(planned: &Value, request: &Value) -> Option<String> {
    deviation(&objects(planned), &objects(request)).map(|found| found.to_string())
}

/// CX2, R37: the desired objects of `UpdateMachine` are compared with the plan.
#[test]
fn the_plan_of_a_machine_set_is_compared_with_the_objects_of_a_machine() {
    let planned = json!({
        "machineSet": {"kind": "MachineSet", "spec": {"replicas": 3, "template": {"spec": {"version": "v1.31.0", "clusterName": "c1"}}}},
        "infrastructureMachineTemplate": {"kind": "TestMachineTemplate", "spec": {"template": {"spec": {"hello": "b", "list": [{"a": 1}]}}}},
        "bootstrapConfigTemplate": {"kind": "KubeadmConfigTemplate", "spec": {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {}}}}}},
    });
    let planned = Objects::read(Level::MachineSet, &planned).unwrap();
    let request = |hello: &str, more: Value| {
        let request = side("v1.31.0", hello);
        let mut infrastructure =
            json!({"hello": hello, "list": [{"a": 1, "defaulted": true}], "providerID": "p://1"});
        json_patch::merge(&mut infrastructure, &more);
        let request = with(&request, "infrastructureMachine", &infrastructure);
        let config = json!({"format": "cloud-config", "joinConfiguration": {"discovery": {"bootstrapToken": {"token": "x"}},
                            "nodeRegistration": {"imagePullPolicy": "IfNotPresent"}}});
        objects(&with(&request, "bootstrapConfig", &config))
    };
    assert_eq!(deviation(&planned, &request("b", json!({}))), None);
    let found = deviation(&planned, &request("c", json!({}))).unwrap();
    assert_eq!(
        found.to_string(),
        "infrastructureMachine/hello is not what was planned"
    );
    let found = deviation(&planned, &request("b", json!({"list": [{"a": 1}, {"a": 2}]}))).unwrap();
    assert_eq!(found.field, "/list");
    let found = deviation(&planned, &request("b", json!({"list": [{"a": 2}]}))).unwrap();
    assert_eq!(found.field, "/list/0/a");
    let found = deviation(&planned, &objects(&side("v1.31.0", "b"))).unwrap();
    assert_eq!(found.object, "bootstrapConfig");
}

#[test]
fn the_machine_that_initialised_its_cluster_is_compared_as_one_that_joined() {
    let join = json!({"clusterConfiguration": {"etcd": {"local": {"imageTag": "3.6.4-0"}}}, "format": "cloud-config",
        "initConfiguration": {"nodeRegistration": {"imagePullPolicy": "IfNotPresent"}},
        "joinConfiguration": {"controlPlane": {}, "nodeRegistration": {"imagePullPolicy": "IfNotPresent", "kubeletExtraArgs": [{"name": "v", "value": "8"}]}}});
    let init = |level: &str| {
        json!({"clusterConfiguration": {"etcd": {"local": {"imageTag": "3.6.4-0"}}},
        "initConfiguration": {"nodeRegistration": {"kubeletExtraArgs": [{"name": "v", "value": level}]}}})
    };
    let machine = side("v1.31.0", "a");
    let planned = with(&machine, "bootstrapConfig", &join);
    assert_eq!(
        deviates(&planned, &with(&machine, "bootstrapConfig", &init("8"))),
        None
    );
    assert_eq!(
        deviates(&planned, &with(&machine, "bootstrapConfig", &init("9"))).unwrap(),
        "bootstrapConfig/joinConfiguration/nodeRegistration/kubeletExtraArgs/0/value is not what was planned"
    );
}

#[test]
fn what_cluster_api_changes_by_itself_is_not_compared() {
    let planned = side("v1.31.0", "a");
    let mut request = planned.clone();
    request["machine"]["spec"]["taints"] = json!([{"key": "k"}]);
    request["machine"]["spec"]["providerID"] = json!("p://2");
    request["machine"]["metadata"]["annotations"] =
        json!({"in-place-updates.internal.cluster.x-k8s.io/update-in-progress": ""});
    assert_eq!(deviates(&planned, &request), None);
    request["machine"]["spec"]["version"] = json!("v1.32.0");
    assert_eq!(
        deviates(&planned, &request).unwrap(),
        "machine/version is not what was planned"
    );
}
