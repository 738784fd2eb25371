//! What `muster zones` needs: everything is in the namespace of its StatefulSets, except the right to write caBundle
//! and the webhook configurations.

use muster_api::labels::label::ZONES_LEADER;
use muster_zones::authority::{INJECT_LABEL, NAMESPACE_LABEL};
use serde_json::{Value, json};

use super::{Options, deployment, labels_of, network};

/// Name of the objects.
pub const NAME: &str = "muster-zones";
/// The Service for the webhooks that only the leader serves.
const LEADER: &str = "muster-zones-leader";
/// The port of `/ready` and `/metrics`, and the port of the webhooks: the defaults of rollout-operator.
const PORT: u16 = 8001;
const WEBHOOKS: u16 = 8443;
/// The Secret with the certificate and the ConfigMap with times of downscales: the same names as rollout-operator's, so
/// that existing ones are used.
const CERTIFICATE: &str = "rollout-operator-self-signed-certificate";
const TRACKER: &str = "rollout-operator-zone-tracker";
/// Evictions of muster's own pods are not reviewed: otherwise the last replica could not be drained. Pods of a
/// Deployment have two generated parts in their names, those of a StatefulSet a number.
const NOT_OURS: &str = "!request.name.matches('^muster-zones-[a-z0-9]+-[a-z0-9]{5}$')";

/// The objects for the StatefulSets of `namespace`, in an order in which they can be applied.
pub fn objects(namespace: &str, options: &Options) -> Vec<Value> {
    let mut objects =
        vec![json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME, namespace)})];
    objects.extend(rights(namespace));
    objects.extend([
        service(NAME, namespace, &labels()),
        service(LEADER, namespace, &leader()),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(NAME, namespace),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels()}},
        }),
        policy(namespace, options),
        deployment(namespace, &options.image),
    ]);
    objects.extend(webhooks(namespace));
    objects
}

fn labels() -> Value {
    labels_of("zones")
}

fn leader() -> Value {
    let mut labels = labels();
    labels[ZONES_LEADER] = "true".into();
    labels
}

fn metadata(name: &str, namespace: &str) -> Value {
    json!({"name": name, "namespace": namespace, "labels": labels()})
}

/// The rights: reads, and each write that is made.
fn rights(namespace: &str) -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let rules = vec![
        rule("apps", &["statefulsets"], &["get", "list", "watch", "patch"]),
        rule("apps", &["statefulsets/status"], &["patch"]),
        // Patches the label of the leader and the time since when a pod is ready.
        rule("", &["pods"], &["get", "list", "watch", "delete", "patch"]),
        rule("", &["configmaps"], &["get", "create", "update"]),
        // `create` cannot be restricted to names.
        rule("", &["secrets"], &["create"]),
        json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [CERTIFICATE], "verbs": ["get", "update"]}),
        rule(
            "fleet.muster.dev",
            &["zonerollouts"],
            &["get", "list", "watch", "create", "delete"],
        ),
        rule("fleet.muster.dev", &["zonerollouts/status"], &["update", "patch"]),
        rule(
            "rollout-operator.grafana.com",
            &["zoneawarepoddisruptionbudgets"],
            &["get", "list", "watch"],
        ),
        rule(
            "rollout-operator.grafana.com",
            &["replicatemplates/scale"],
            &["get"],
        ),
        rule(
            "rollout-operator.grafana.com",
            &["replicatemplates/status"],
            &["get", "patch"],
        ),
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
        rule("events.k8s.io", &["events"], &["create"]),
    ];
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    // Webhook configurations are cluster-scoped: the name must differ from that of another namespace's installation.
    let cluster = format!("{NAME}-{namespace}");
    let api_version = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}]);
    let reference =
        |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    vec![
        json!({"apiVersion": api_version, "kind": "Role", "metadata": metadata(NAME, namespace), "rules": rules}),
        json!({
            "apiVersion": api_version, "kind": "RoleBinding", "metadata": metadata(NAME, namespace),
            "roleRef": reference("Role", NAME), "subjects": subjects,
        }),
        json!({
            "apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": cluster, "labels": labels()},
            "rules": [rule("admissionregistration.k8s.io", &configurations, &["list", "watch", "patch"])],
        }),
        json!({
            "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": cluster, "labels": labels()},
            "roleRef": reference("ClusterRole", &cluster), "subjects": subjects,
        }),
    ]
}

fn service(name: &str, namespace: &str, selector: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(name, namespace),
        "spec": {"selector": selector, "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
    })
}

/// As for the other processes, plus egress to pods of the namespace at any port that they declare.
fn policy(namespace: &str, options: &Options) -> Value {
    let mut egress = network::egress(&options.egress_ports);
    egress.push(json!({"to": [{"podSelector": {}}]}));
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata(NAME, namespace),
        "spec": {
            "podSelector": {"matchLabels": labels()},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [network::port("TCP", PORT), network::port("TCP", WEBHOOKS)]}],
            "egress": egress,
        },
    })
}

/// The flags of an installation.
pub fn arguments(namespace: &str) -> Vec<String> {
    vec![
        format!("-kubernetes.namespace={namespace}"),
        "-server-tls.enabled=true".to_owned(),
        // One certificate for both Services.
        format!("-server-tls.self-signed-cert.dns-name=*.{namespace}.svc"),
        "-use-zone-tracker=true".to_owned(),
        format!("-zone-tracker.config-map-name={TRACKER}"),
    ]
}

fn deployment(namespace: &str, image: &str) -> Value {
    let mut command = vec!["zones".to_owned()];
    command.extend(arguments(namespace));
    // Spreads the replicas of one revision.
    let apart = |topology: &str| {
        json!({
            "topologyKey": topology, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels()}, "matchLabelKeys": ["pod-template-hash"],
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(NAME, namespace),
        "spec": {
            "replicas": 2,
            // One replica is always available.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": deployment::pod_security(),
                    "topologySpreadConstraints": [apart("kubernetes.io/hostname"), apart("topology.kubernetes.io/zone")],
                    "containers": [{
                        "name": "muster",
                        "image": image,
                        "args": command,
                        "env": [{"name": "MUSTER_LOG_FORMAT", "value": "json"}],
                        "ports": [
                            {"name": "http-metrics", "containerPort": PORT},
                            {"name": "https", "containerPort": WEBHOOKS},
                        ],
                        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http-metrics"}},
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http-metrics"}, "periodSeconds": 5},
                        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"memory": "512Mi"}},
                        "securityContext": deployment::container_security(),
                    }],
                },
            },
        },
    })
}

/// The webhooks of rollout-operator, with its names and failure policies.
pub fn webhooks(namespace: &str) -> Vec<Value> {
    let replicas = json!([{
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["statefulsets", "statefulsets/scale"], "scope": "Namespaced",
    }]);
    let evictions = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"], "scope": "Namespaced",
    }]);
    let budgets = json!([{
        "apiGroups": ["rollout-operator.grafana.com"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["zoneawarepoddisruptionbudgets"], "scope": "Namespaced",
    }]);
    let configuration = |kind: &str, webhook: &str, service: &str, side_effects: &str, rules: &Value| {
        let name = format!("{webhook}-{namespace}");
        let mut labels = labels();
        labels[INJECT_LABEL] = "true".into();
        labels[NAMESPACE_LABEL] = namespace.into();
        let path = format!("/admission/{webhook}");
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "labels": labels},
            "webhooks": [{
                "name": format!("{name}.grafana.com"),
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": service, "namespace": namespace, "path": path, "port": 443}},
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": rules,
                "sideEffects": side_effects,
                "timeoutSeconds": 10,
            }],
        })
    };
    let (mutating, validating) = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration");
    let mut eviction = configuration(validating, "pod-eviction", LEADER, "NoneOnDryRun", &evictions);
    eviction["webhooks"][0]["matchConditions"] =
        json!([{"name": "not-a-pod-of-muster-zones", "expression": NOT_OURS}]);
    vec![
        configuration(mutating, "prepare-downscale", LEADER, "NoneOnDryRun", &replicas),
        configuration(validating, "no-downscale", NAME, "None", &replicas),
        eviction,
        configuration(validating, "zpdb-validation", NAME, "None", &budgets),
    ]
}

#[cfg(test)]
mod tests {
    use muster_zones::flags::{Certificate, Settings, parse_flags};
    use regex::Regex;

    use super::*;

    #[test]
    fn the_flags_are_those_that_muster_zones_reads() {
        let deployment = deployment("mimir", "muster:1");
        let arguments: Vec<String> =
            serde_json::from_value(deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone())
                .unwrap();
        assert_eq!(arguments[0], "zones");
        let settings = Settings::new(&parse_flags(&arguments[1..]).unwrap()).unwrap();
        assert_eq!(settings.namespace, "mimir");
        assert_eq!((settings.port, settings.webhooks_port), (PORT, Some(WEBHOOKS)));
        let Certificate::SelfSigned { secret, dns_name, .. } = settings.certificate else {
            panic!("{:?}", settings.certificate);
        };
        assert_eq!((secret.as_str(), dns_name.as_str()), (CERTIFICATE, "*.mimir.svc"));
    }

    #[test]
    fn evictions_of_other_pods_are_reviewed() {
        let pattern = NOT_OURS.split('\'').nth(1).unwrap();
        let pattern = Regex::new(pattern).unwrap();
        for (pod, is_ours) in [
            ("muster-zones-6d4cf56db6-x2v9k", true),
            ("muster-zones-0", false),
            ("muster-zones-a-0", false),
            ("ingester-zone-a-0", false),
            ("my-muster-zones-6d4cf56db6-x2v9k", false),
        ] {
            assert_eq!(pattern.is_match(pod), is_ours, "{pod}");
        }
    }

    /// The leader serves these two; a replica that is not the leader serves the others as well.
    #[test]
    fn what_the_leader_alone_answers_goes_to_its_service() {
        let services: Vec<(String, String)> = webhooks("mimir")
            .iter()
            .map(|configuration| {
                let service = &configuration["webhooks"][0]["clientConfig"]["service"];
                let text = |key: &str| service[key].as_str().unwrap().to_owned();
                (text("path"), text("name"))
            })
            .collect();
        let expected = [
            ("/admission/prepare-downscale", LEADER),
            ("/admission/no-downscale", NAME),
            ("/admission/pod-eviction", LEADER),
            ("/admission/zpdb-validation", NAME),
        ];
        assert_eq!(
            services,
            expected.map(|(path, name)| (path.to_owned(), name.to_owned()))
        );
        assert_eq!(
            service(LEADER, "mimir", &leader())["spec"]["selector"][ZONES_LEADER],
            "true"
        );
    }
}
