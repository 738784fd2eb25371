//! Services: the endpoints of their pods, and the address of a load balancer.

use k8s_openapi::api::core::v1::{
    LoadBalancerIngress, LoadBalancerStatus, ObjectReference, Pod, Service, ServicePort, ServiceSpec,
    ServiceStatus,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

use super::hash::fnv;
use super::plan::{Plan, Verb};
use super::pod;
use super::shelf::meta_uid;
use super::template::owner;

/// Maximum number of endpoints per slice, as in the real controller.
const SLICE: usize = 100;

/// Decides what to do about a Service that controls these slices, in a namespace with these pods.
pub(super) fn decide(service: &Service, slices: &[&EndpointSlice], pods: &[&Pod]) -> Plan {
    let mut plan = Plan::default();
    let spec = service.spec.clone().unwrap_or_default(); // the server requires one
    if service.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    balance(&mut plan, service, &spec);
    let selector = spec.selector.clone().unwrap_or_default(); // absent: selects nothing
    if selector.is_empty() || spec.type_.as_deref() == Some("ExternalName") {
        return plan;
    }
    let selected = pods.iter().filter(|pod| {
        selector
            .iter()
            .all(|(key, value)| pod.labels().get(key) == Some(value))
            && !pod::is_over(pod)
    });
    let selected: Vec<&Pod> = selected.copied().collect();
    let endpoints: Vec<Endpoint> = selected.iter().filter_map(|pod| endpoint(pod, service)).collect();
    let ports = ports(&spec, selected.first().copied());
    let mut chunks: Vec<&[Endpoint]> = endpoints.chunks(SLICE).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    for (index, chunk) in chunks.iter().enumerate() {
        let old = slices.get(index).copied();
        let wanted = slice(service, old, chunk, &ports);
        match old {
            None => plan.write(Verb::Create, wanted),
            Some(old) if *old != wanted => plan.write(Verb::Replace, wanted),
            Some(_) => {}
        }
    }
    for slice in slices.iter().skip(chunks.len()) {
        plan.write(Verb::Delete, (*slice).clone());
    }
    plan
}

/// Assigns an address of TEST-NET-2 to a load balancer immediately.
fn balance(plan: &mut Plan, service: &Service, spec: &ServiceSpec) {
    let old = service.status.clone().unwrap_or_default(); // none yet
    let has_address = old
        .load_balancer
        .as_ref()
        .is_some_and(|balancer| balancer.ingress.is_some());
    let wants_address = spec.type_.as_deref() == Some("LoadBalancer");
    if has_address == wants_address {
        return;
    }
    let [.., last] = fnv(meta_uid(&service.metadata).as_bytes()).to_be_bytes();
    let ingress = LoadBalancerIngress {
        ip: Some(format!("198.51.100.{last}")),
        ip_mode: Some("VIP".to_owned()),
        ..LoadBalancerIngress::default()
    };
    let balancer = LoadBalancerStatus {
        ingress: wants_address.then(|| vec![ingress]),
    };
    let status = ServiceStatus {
        load_balancer: Some(balancer),
        ..old
    };
    plan.write(
        Verb::Status,
        Service {
            status: Some(status),
            ..service.clone()
        },
    );
}

fn endpoint(pod: &Pod, service: &Service) -> Option<Endpoint> {
    let address = pod.status.as_ref()?.pod_ip.clone()?;
    let is_going = pod.metadata.deletion_timestamp.is_some();
    let serves = pod::ready_since(pod).is_some();
    let whatever = service
        .spec
        .as_ref()
        .is_some_and(|spec| spec.publish_not_ready_addresses == Some(true));
    // A pod whose subdomain is the Service has its own host name.
    let own = pod
        .spec
        .as_ref()
        .filter(|spec| spec.subdomain == service.metadata.name);
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(whatever || (serves && !is_going)),
            serving: Some(serves),
            terminating: Some(is_going),
        }),
        hostname: own.and_then(|spec| spec.hostname.clone()),
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.namespace(),
            name: Some(pod.name_any()),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}

fn slice(
    service: &Service,
    old: Option<&EndpointSlice>,
    endpoints: &[Endpoint],
    ports: &[EndpointPort],
) -> EndpointSlice {
    let mut labels = service.metadata.labels.clone().unwrap_or_default(); // none
    labels.insert("kubernetes.io/service-name".to_owned(), service.name_any());
    labels.insert(
        "endpointslice.kubernetes.io/managed-by".to_owned(),
        "endpointslice-controller.k8s.io".to_owned(),
    );
    let metadata = old.map_or_else(
        || ObjectMeta {
            generate_name: Some(format!("{}-", service.name_any())),
            namespace: service.namespace(),
            owner_references: Some(vec![owner(service)]),
            ..ObjectMeta::default()
        },
        |old| old.metadata.clone(),
    );
    EndpointSlice {
        metadata: ObjectMeta {
            labels: Some(labels),
            ..metadata
        },
        address_type: "IPv4".to_owned(),
        endpoints: (!endpoints.is_empty()).then(|| endpoints.to_vec()),
        ports: (!ports.is_empty()).then(|| ports.to_vec()),
    }
}

/// The ports of the pods behind the service; a named port is looked up in a pod.
fn ports(spec: &ServiceSpec, pod: Option<&Pod>) -> Vec<EndpointPort> {
    let all = spec.ports.iter().flatten();
    all.filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()), // a single port needs no name
            port: Some(number(port, pod)?),
            protocol: port.protocol.clone().or_else(|| Some("TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    })
    .collect()
}

fn number(port: &ServicePort, pod: Option<&Pod>) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let mut ports = pod?
                .spec
                .iter()
                .flat_map(|spec| &spec.containers)
                .flat_map(|c| c.ports.iter().flatten());
            ports
                .find(|port| port.name.as_ref() == Some(name))
                .map(|port| port.container_port)
        }
    }
}
