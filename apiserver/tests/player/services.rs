//! Services: their endpoints.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use crate::bed::{Bed, deployment};

fn ready(slices: &[Value]) -> usize {
    let endpoints = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints
        .filter(|endpoint| endpoint["conditions"]["ready"] == true)
        .count()
}

fn own(slices: &[Value]) -> Vec<Value> {
    slices
        .iter()
        .filter(|s| s["metadata"]["labels"]["kubernetes.io/service-name"] == "web")
        .cloned()
        .collect()
}

#[tokio::test(start_paused = true)]
async fn ready_pods_are_endpoints() {
    let bed = Bed::new();
    let mut object = deployment("web", 2, "web:1");
    object["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{"name": "http", "containerPort": 9898}]);
    bed.create::<Deployment>(object).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}],
    }});
    bed.create::<Service>(service).await;
    bed.deployment_done("web").await;
    let slices = own(&bed
        .until_all::<EndpointSlice>(|slices| ready(&own(slices)) == 2)
        .await);
    assert_eq!(slices.len(), 1);
    assert_eq!(
        slices[0]["ports"],
        json!([{"name": "", "port": 9898, "protocol": "TCP"}])
    );
    assert_eq!(slices[0]["endpoints"][0]["targetRef"]["kind"], "Pod");
    bed.patch::<Deployment>("web", json!({"spec": {"replicas": 0}}))
        .await;
    bed.until_all::<EndpointSlice>(|slices| own(slices).iter().all(|slice| slice["endpoints"].is_null()))
        .await;
    bed.delete::<Service>("web").await;
    bed.until_all::<EndpointSlice>(|slices| own(slices).is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn more_than_a_hundred_endpoints_take_several_slices() {
    let bed = Bed::new();
    bed.create::<Service>(
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
    )
    .await;
    bed.create::<Deployment>(deployment("web", 120, "web:1")).await;
    let slices = own(&bed
        .until_all::<EndpointSlice>(|slices| ready(&own(slices)) == 120)
        .await);
    let mut sizes: Vec<usize> = slices
        .iter()
        .map(|slice| slice["endpoints"].as_array().unwrap().len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [20, 100]);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_has_an_address_as_long_as_it_is_one() {
    let bed = Bed::new();
    let service = json!({"metadata": {"name": "web"}, "spec": {
        "type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}],
    }});
    bed.create::<Service>(service).await;
    let address = |service: &Value| service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string();
    bed.until::<Service>("web", address).await;
    bed.patch::<Service>("web", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    bed.until::<Service>("web", |service| !address(service)).await;
}
