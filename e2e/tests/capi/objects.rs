//! A ClusterClass of machines that are simulated in memory, and Clusters of it.

use serde_json::{Value, json};

pub(crate) const NS: &str = "default";
pub(crate) const CLASS: &str = "in-memory";

/// The kinds that providers implement.
const GROUPS: [&str; 3] = ["infrastructure", "bootstrap", "controlplane"];
/// Delay after which each part of a machine is provisioned.
const SOON: &str = "1s";

/// A bootstrap config template with these additional fields.
pub(crate) fn bootstrap_template(name: &str, fields: &Value) -> Value {
    let mut spec = json!({"joinConfiguration": joining()});
    let all = spec.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    templated("KubeadmConfigTemplate", "bootstrap.cluster.x-k8s.io", name, &spec)
}

fn templated(kind: &str, group: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{group}/v1beta2"),
        "kind": kind,
        "metadata": {"name": name, "namespace": NS},
        "spec": {"template": {"spec": spec}},
    })
}

fn reference(kind: &str, group: &str, name: &str) -> Value {
    json!({"templateRef": {"apiVersion": format!("{group}/v1beta2"), "kind": kind, "name": name}})
}

/// A kubeadm configuration without unset fields.
fn joining() -> Value {
    json!({"nodeRegistration": {"criSocket": "unix:///run/containerd/containerd.sock"}})
}

/// The class and its templates, in order of creation.
pub(crate) fn class() -> Vec<Value> {
    let [infrastructure, bootstrap, control_plane] =
        ["infrastructure", "bootstrap", "controlplane"].map(|group| format!("{group}.cluster.x-k8s.io"));
    let part = json!({"provisioning": {"startupDuration": SOON, "startupJitter": "0"}});
    let machine =
        json!({"backend": {"inMemory": {"vm": part, "node": part, "apiServer": part, "etcd": part}}});
    let joining = joining();
    let machines = reference("DevMachineTemplate", &infrastructure, "machine");
    let mut control = reference("KubeadmControlPlaneTemplate", &control_plane, "control-plane");
    control["machineInfrastructure"] = machines.clone();
    vec![
        templated(
            "DevClusterTemplate",
            &infrastructure,
            "cluster",
            &json!({"backend": {"inMemory": {}}}),
        ),
        templated("DevMachineTemplate", &infrastructure, "machine", &machine),
        templated(
            "KubeadmControlPlaneTemplate",
            &control_plane,
            "control-plane",
            &json!({"kubeadmConfigSpec": {"initConfiguration": joining, "joinConfiguration": joining}}),
        ),
        bootstrap_template("worker", &json!({})),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "ClusterClass",
            "metadata": {"name": CLASS, "namespace": NS},
            "spec": {
                "infrastructure": reference("DevClusterTemplate", &infrastructure, "cluster"),
                "controlPlane": control,
                "workers": {"machineDeployments": [{
                    "class": "worker",
                    "bootstrap": reference("KubeadmConfigTemplate", &bootstrap, "worker"),
                    "infrastructure": machines,
                }]},
            },
        }),
    ]
}

/// A Cluster with one control plane machine and one worker, that allows muster to write its version.
pub(crate) fn cluster(name: &str, version: &str) -> Value {
    let topology = json!({
        "classRef": {"name": CLASS},
        "version": version,
        "controlPlane": {"replicas": 1},
        "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": 1}]},
    });
    with(name, &json!({"topology": topology}))
}

/// The same without a topology, in order of creation: muster writes the version of the control plane, then that of the
/// workers.
pub(crate) fn apart(name: &str, version: &str) -> Vec<Value> {
    let [infrastructure, bootstrap, control_plane] = GROUPS.map(|group| format!("{group}.cluster.x-k8s.io"));
    let reference =
        |kind: &str, group: &str, name: &str| json!({"apiGroup": group, "kind": kind, "name": name});
    let machine = reference("DevMachineTemplate", &infrastructure, "machine");
    let object = |kind: &str, group: &str, spec: Value| {
        json!({
            "apiVersion": format!("{group}/v1beta2"),
            "kind": kind,
            // The provider writes annotations, and panics if there are none.
            "metadata": {
                "name": name,
                "namespace": NS,
                "labels": {"cluster.x-k8s.io/cluster-name": name},
                "annotations": {"test": "apart"},
            },
            "spec": spec,
        })
    };
    let joining = joining();
    let cluster = json!({
        "controlPlaneRef": reference("KubeadmControlPlane", &control_plane, name),
        "infrastructureRef": reference("DevCluster", &infrastructure, name),
    });
    let control = json!({
        "replicas": 1,
        "version": version,
        "machineTemplate": {"spec": {"infrastructureRef": machine}},
        "kubeadmConfigSpec": {"initConfiguration": joining, "joinConfiguration": joining},
    });
    let workers = json!({
        "clusterName": name,
        "replicas": 1,
        "template": {"spec": {
            "clusterName": name,
            "version": version,
            "bootstrap": {"configRef": reference("KubeadmConfigTemplate", &bootstrap, "worker")},
            "infrastructureRef": machine,
        }},
    });
    vec![
        object(
            "DevCluster",
            &infrastructure,
            json!({"backend": {"inMemory": {}}}),
        ),
        object("KubeadmControlPlane", &control_plane, control),
        with(name, &cluster),
        object("MachineDeployment", "cluster.x-k8s.io", workers),
    ]
}

fn with(name: &str, spec: &Value) -> Value {
    let mut cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {
            "name": name,
            "namespace": NS,
            "labels": {"name": name},
            "annotations": {"fleet.muster.dev/upgrades": "muster"},
        },
        "spec": {
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["192.168.0.0/16"]},
                "services": {"cidrBlocks": ["10.128.0.0/12"]},
                "serviceDomain": "cluster.local",
            },
        },
    });
    let all = cluster["spec"].as_object_mut().unwrap();
    all.extend(spec.as_object().unwrap().clone());
    cluster
}
