//! The manifests of `muster install --export`: what runs muster in a cluster, to apply or to commit.
//!
//! Invariant: nothing here writes to a cluster; the same flags give the same text.

#[cfg(test)]
mod charts;
mod deployment;
mod distribute;
mod machines;
mod network;
mod nodes;
mod pane;
mod rights;
mod upgrades;
pub mod zones;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_api::{
    crds,
    labels::{MUSTER, SYSTEM_NAMESPACE, label},
};
use muster_controllers::machines::config;
use muster_sync::build::print;
use serde_json::{Value, json};

pub use self::deployment::{deployment_arguments, works_in};

/// The account of the management cluster in a downstream cluster; the Secret with its token and its roles have the same
/// name.
pub(crate) const ACCOUNT: &str = "muster-management";

/// The default image.
pub const IMAGE: &str = concat!("muster:", env!("CARGO_PKG_VERSION"));

/// What applies GitRepository and Kustomization objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// muster itself.
    Builtin,
    /// Flux: muster writes the Flux kinds and reads their status.
    Flux,
}

/// Who may view the dashboard of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Everyone who can connect.
    None,
    /// Anyone with the bearer token of a user who may get modules in the namespace.
    Token,
}

/// What is installed, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// For the management cluster: muster controller.
    pub management: bool,
    /// With --management: also ClusterUpgrades, and the permission to write the versions of Clusters
    /// (docs/upgrades.md).
    pub upgrades: bool,
    /// For a downstream cluster: muster agent.
    pub downstream: bool,
    /// With --downstream: also the management cluster's permission to write Secrets for git, and the admission policy
    /// that restricts it to them (docs/sync.md).
    pub distribute: bool,
    /// For a downstream cluster whose nodes are configured by NodeModules: muster agent --nodes, and the agents of
    /// nodes (docs/nodes.md).
    pub nodes: bool,
    /// For the StatefulSets of a namespace (-n) that are rolled and scaled zone by zone: muster zones.
    pub zones: bool,
    /// For a management cluster whose Cluster API updates machines in place: muster machines (docs/machines.md).
    pub machines: bool,
    /// With --machines: the file with the updaters; it goes into a ConfigMap.
    pub updaters: Option<PathBuf>,
    /// Also the CustomResourceDefinitions.
    pub crds: bool,
    /// Also a minimal Cluster kind, for a management cluster without Cluster API.
    pub cluster_api: bool,
    /// With --zones and --crds: also ZoneAwarePodDisruptionBudget and ReplicaTemplate; false if rollout-operator's own
    /// definitions are installed.
    pub rollout_operator_crds: bool,
    /// What applies the Flux kinds; with flux, Flux installs their definitions.
    pub sync: Sync,
    /// Also enable the dashboard of muster controller, with this authentication, and a Service muster-dashboard
    /// (docs/dashboard.md).
    pub dashboard: Option<Auth>,
    /// The image that contains the command muster.
    pub image: String,
    /// The ports of API servers, git hosts and gate hosts: the NetworkPolicy allows egress to these and to DNS only.
    pub egress_ports: Vec<u16>,
    /// Send notifications about rollouts to the receivers in the Secret muster-system/muster-notify
    /// (docs/notifications.md).
    pub notify: bool,
}

/// HTTPS, and the usual port of API servers: connections of pods are redirected to it before a NetworkPolicy applies.
pub const EGRESS_PORTS: [u16; 2] = [443, 6443];

/// The rights of `muster controller` for modules in a namespace.
pub fn rights_of_controller(namespace: &str) -> Vec<Value> {
    rights::objects(Role::Controller, namespace, Sync::Builtin, false)
}

/// The rights of a controller that is deployed with these arguments.
pub fn rights_by_arguments(namespace: &str, arguments: &[&str]) -> Vec<Value> {
    let has = |start: &str| arguments.iter().any(|argument| argument.starts_with(start));
    let mut objects = rights::objects(
        Role::Controller,
        namespace,
        Sync::Builtin,
        has("--notify-config="),
    );
    if has("--dashboard-addr=") {
        let auth = if has("--dashboard-auth=token") {
            Auth::Token
        } else {
            Auth::None
        };
        let pane = pane::objects(namespace, auth);
        objects.extend(pane.into_iter().filter(|object| object["kind"] != "Service"));
    }
    if has("--upgrades") {
        objects.extend(upgrades::objects(namespace));
    }
    objects
}

/// The rights of `muster agent`, except those for what it applies.
pub fn rights_of_agent() -> Vec<Value> {
    let mut objects = rights::objects(Role::Agent, SYSTEM_NAMESPACE, Sync::Builtin, false);
    objects.retain(|object| object["roleRef"]["name"] != "cluster-admin");
    objects
}

/// The objects of an installation.
#[derive(Debug)]
pub struct Installation {
    /// The CustomResourceDefinitions.
    pub definitions: Vec<CustomResourceDefinition>,
    /// The objects, in an order in which they can be applied.
    pub objects: Vec<Value>,
}

/// What `muster install --export --downstream --crds` prints.
pub fn downstream(image: &str, sync: Sync) -> Installation {
    let options = Options {
        downstream: true,
        ..Options::of(image, sync)
    };
    Installation {
        definitions: definitions(&options),
        objects: objects(&options, SYSTEM_NAMESPACE),
    }
}

/// What `muster install --export --management --crds` prints, for modules in a namespace.
pub fn management(image: &str, sync: Sync, namespace: &str, cluster_api: bool) -> Installation {
    let options = Options {
        management: true,
        cluster_api,
        ..Options::of(image, sync)
    };
    Installation {
        definitions: definitions(&options),
        objects: objects(&options, namespace),
    }
}

/// All objects that `muster install --export --management` may have created for modules in a namespace, with any
/// options.
pub fn everything(namespace: &str) -> Vec<Value> {
    let options = Options {
        management: true,
        upgrades: true,
        dashboard: Some(Auth::Token),
        notify: true,
        ..Options::of(IMAGE, Sync::Builtin)
    };
    objects(&options, namespace)
}

/// The Deployment of the controller.
pub const CONTROLLER: &str = Role::Controller.name();

impl Options {
    fn of(image: &str, sync: Sync) -> Self {
        Self {
            management: false,
            upgrades: false,
            downstream: false,
            distribute: false,
            nodes: false,
            zones: false,
            machines: false,
            updaters: None,
            crds: true,
            cluster_api: false,
            rollout_operator_crds: true,
            sync,
            image: image.to_owned(),
            dashboard: None,
            egress_ports: EGRESS_PORTS.to_vec(),
            notify: false,
        }
    }
}

/// One of the two installations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Controller,
    Agent,
}

impl Role {
    /// The verb of the command, and the component label.
    const fn verb(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Agent => "agent",
        }
    }

    /// The name of its Deployment, ServiceAccount and roles.
    const fn name(self) -> &'static str {
        match self {
            Self::Controller => "muster-controller",
            Self::Agent => "muster-agent",
        }
    }
}

/// The manifests as a stream of YAML documents. `namespace` is that of modules or StatefulSets; an agent always uses
/// the namespace into which assemblages are mirrored.
pub fn manifests(options: &Options, namespace: Option<&str>) -> anyhow::Result<String> {
    let downstream = options.downstream || options.nodes;
    let requested = namespace.filter(|_| !downstream);
    let default = if downstream { SYSTEM_NAMESPACE } else { "default" };
    let mut text = String::new();
    for definition in definitions(options) {
        text += "---\n";
        text += &crds::yaml(&definition);
    }
    let objects = match &options.updaters {
        Some(file) => machines::objects(options, &updaters(file)?),
        None => objects(options, requested.unwrap_or(default)),
    };
    for object in objects {
        text += "---\n";
        text += &print::yaml(&object);
    }
    Ok(text)
}

/// The file with the updaters, if `muster machines` can parse it.
fn updaters(file: &Path) -> anyhow::Result<String> {
    let named = || format!("--updaters {}", file.display());
    let text = fs::read_to_string(file).with_context(named)?;
    config::read(text.as_bytes()).with_context(named)?;
    Ok(text)
}

fn definitions(options: &Options) -> Vec<CustomResourceDefinition> {
    if !options.crds {
        return Vec::new();
    }
    if options.machines {
        return crds::machines();
    }
    if options.zones {
        let others = options.rollout_operator_crds.then(crds::rollout_operator);
        return crds::zones()
            .into_iter()
            .chain(others.into_iter().flatten())
            .collect();
    }
    let mut definitions = if options.management {
        crds::management()
    } else {
        crds::downstream()
    };
    definitions.extend(
        (options.sync == Sync::Builtin)
            .then(crds::flux)
            .into_iter()
            .flatten(),
    );
    if options.nodes {
        definitions.extend(crds::nodes());
    }
    if options.upgrades {
        definitions.extend(crds::upgrades());
    }
    definitions.extend(options.cluster_api.then(crds::cluster_api));
    definitions
}

/// The objects, in an order in which they can be applied; `works_in` is the namespace of modules, of assemblages, or of
/// StatefulSets.
fn objects(options: &Options, works_in: &str) -> Vec<Value> {
    if options.zones {
        return zones::objects(works_in, options);
    }
    let role = if options.management {
        Role::Controller
    } else {
        Role::Agent
    };
    let mut objects = vec![namespace(SYSTEM_NAMESPACE)];
    if works_in != SYSTEM_NAMESPACE && works_in != "default" {
        objects.push(namespace(works_in));
    }
    objects.push(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": role.name(), "namespace": SYSTEM_NAMESPACE, "labels": labels(role)},
    }));
    objects.extend(rights::objects(role, works_in, options.sync, options.notify));
    if let Some(auth) = options.dashboard {
        objects.extend(pane::objects(works_in, auth));
    }
    if options.upgrades {
        objects.extend(upgrades::objects(works_in));
    }
    if options.distribute {
        objects.extend(distribute::objects());
    }
    objects.push(network::policy(role, options));
    if options.nodes {
        objects.extend(nodes::objects(options));
    }
    objects.push(deployment::deployment(role, works_in, options));
    objects
}

fn namespace(name: &str) -> Value {
    let enforced = (name == SYSTEM_NAMESPACE).then_some(json!({
        label::APP_MANAGED_BY: MUSTER,
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }));
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": enforced.unwrap_or_else(|| json!({label::APP_MANAGED_BY: MUSTER}))},
    })
}

/// Kubernetes' recommended labels.
fn labels(role: Role) -> Value {
    labels_of(role.verb())
}

fn labels_of(component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": MUSTER,
        "app.kubernetes.io/component": component,
        label::APP_PART_OF: MUSTER,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration,
        },
        apps::v1::{DaemonSet, Deployment},
        core::v1::{Namespace, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role as NamespacedRole, RoleBinding},
    };
    use serde::de::DeserializeOwned;

    use super::*;

    fn flags(downstream: bool, sync: Sync) -> Options {
        Options {
            management: !downstream,
            downstream,
            crds: false,
            ..Options::of("example.com/muster:1", sync)
        }
    }

    fn zones() -> Options {
        Options {
            zones: true,
            ..Options::of("example.com/muster:1", Sync::Builtin)
        }
    }

    fn nodes() -> Options {
        Options {
            nodes: true,
            ..Options::of("example.com/muster:1", Sync::Flux)
        }
    }

    fn text(objects: &[Value]) -> String {
        objects.iter().map(print::yaml).collect::<Vec<_>>().join("---\n")
    }

    /// Whether an object round-trips through its type: no field is unknown.
    fn is_whole<K: DeserializeOwned + serde::Serialize>(object: &Value) -> bool {
        let typed: K = serde_json::from_value(object.clone()).unwrap();
        serde_json::to_value(typed).unwrap() == *object
    }

    #[test]
    fn every_object_is_of_its_type_without_an_unknown_field() {
        let mut all = objects(&zones(), "mimir");
        all.extend(objects(&nodes(), SYSTEM_NAMESPACE));
        for (downstream, sync, dashboard) in [
            (false, Sync::Builtin, None),
            (false, Sync::Builtin, Some(Auth::Token)),
            (true, Sync::Builtin, None),
            (true, Sync::Flux, None),
        ] {
            let flags = Options {
                dashboard,
                ..flags(downstream, sync)
            };
            all.extend(objects(
                &flags,
                if downstream { SYSTEM_NAMESPACE } else { "fleet" },
            ));
        }
        for object in all {
            let kind = object["kind"].as_str().unwrap();
            let whole = match kind {
                "Namespace" => is_whole::<Namespace>(&object),
                "ServiceAccount" => is_whole::<ServiceAccount>(&object),
                "Role" => is_whole::<NamespacedRole>(&object),
                "RoleBinding" => is_whole::<RoleBinding>(&object),
                "ClusterRole" => is_whole::<ClusterRole>(&object),
                "ClusterRoleBinding" => is_whole::<ClusterRoleBinding>(&object),
                "NetworkPolicy" => is_whole::<NetworkPolicy>(&object),
                "Deployment" => is_whole::<Deployment>(&object),
                "Service" => is_whole::<Service>(&object),
                "PodDisruptionBudget" => is_whole::<PodDisruptionBudget>(&object),
                "MutatingWebhookConfiguration" => is_whole::<MutatingWebhookConfiguration>(&object),
                "DaemonSet" => is_whole::<DaemonSet>(&object),
                "ValidatingAdmissionPolicy" => is_whole::<ValidatingAdmissionPolicy>(&object),
                "ValidatingAdmissionPolicyBinding" => is_whole::<ValidatingAdmissionPolicyBinding>(&object),
                "ValidatingWebhookConfiguration" => is_whole::<ValidatingWebhookConfiguration>(&object),
                other => panic!("{other} is not expected"),
            };
            assert!(whole, "{kind}: {object}");
        }
    }

    #[test]
    fn management() {
        insta::assert_snapshot!(text(&objects(&flags(false, Sync::Builtin), "fleet")));
    }

    /// Without notifications there are no rights for them.
    #[test]
    fn notifications() {
        let without = flags(false, Sync::Builtin);
        let with = Options {
            notify: true,
            ..flags(false, Sync::Builtin)
        };
        let difference = similar::TextDiff::from_lines(
            &text(&objects(&without, "fleet")),
            &text(&objects(&with, "fleet")),
        )
        .unified_diff()
        .context_radius(1)
        .to_string();
        insta::assert_snapshot!(difference);
    }

    #[test]
    fn dashboard() {
        let flags = Options {
            dashboard: Some(Auth::Token),
            ..flags(false, Sync::Builtin)
        };
        let with = objects(&flags, "fleet");
        let without = objects(&self::flags(false, Sync::Builtin), "fleet");
        let more: Vec<Value> = with
            .into_iter()
            .filter(|object| !without.contains(object))
            .collect();
        insta::assert_snapshot!(text(&more));
    }

    #[test]
    fn the_dashboard_asks_for_no_right_to_write() {
        let rules: Vec<Value> = pane::objects("fleet", Auth::Token)
            .into_iter()
            .filter_map(|object| object.get("rules").cloned())
            .collect();
        for rule in rules.iter().flat_map(|rules| rules.as_array().unwrap()) {
            let is_question = ["tokenreviews", "subjectaccessreviews"]
                .iter()
                .any(|review| rule["resources"] == json!([review]));
            let verbs: Vec<&str> = rule["verbs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|verb| verb.as_str().unwrap())
                .collect();
            let reads = verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb));
            assert!(reads || (is_question && verbs == ["create"]), "{rule}");
        }
    }

    #[test]
    fn downstream() {
        insta::assert_snapshot!(text(&objects(&flags(true, Sync::Builtin), SYSTEM_NAMESPACE)));
    }

    /// The objects that an agent without nodes does not have.
    #[test]
    fn nodes_of_a_cluster() {
        let without = objects(&flags(true, Sync::Flux), SYSTEM_NAMESPACE);
        let all = objects(&nodes(), SYSTEM_NAMESPACE);
        let more: Vec<Value> = all
            .into_iter()
            .filter(|object| !without.contains(object))
            .collect();
        insta::assert_snapshot!(text(&more));
    }

    #[test]
    fn zones_of_a_namespace() {
        insta::assert_snapshot!(text(&objects(&zones(), "mimir")));
    }

    #[test]
    fn machines_of_cluster_api() {
        let updaters = include_str!("../../../examples/machines/updaters.yaml");
        config::read(updaters.as_bytes()).unwrap();
        insta::assert_snapshot!(text(&machines::objects(
            &Options::of("muster:1", Sync::Builtin),
            updaters
        )));
    }

    /// Kubeconfigs of Clusters are read only to prepare Nodes.
    #[test]
    fn machines_reads_secrets_only_where_an_updater_prepares_nodes() {
        let updaters = include_str!("../../../examples/machines/updaters.yaml");
        let reads_secrets = |updaters: &str| {
            let objects = machines::objects(&Options::of("muster:1", Sync::Builtin), updaters);
            let role = objects
                .iter()
                .find(|object| object["kind"] == "ClusterRole")
                .unwrap();
            let mut rules = role["rules"].as_array().unwrap().iter();
            rules.any(|rule| rule["resources"] == json!(["secrets"]))
        };
        assert!(reads_secrets(updaters));
        let without: Vec<&str> = updaters
            .lines()
            .filter(|line| !line.contains("prepareNode"))
            .collect();
        assert!(!reads_secrets(&without.join("\n")));
    }

    #[test]
    fn definitions_of_rollout_operator_are_left_out_where_its_own_are() {
        let names = |options: &Options| -> Vec<String> {
            let definitions = definitions(options).into_iter();
            definitions.map(|definition| definition.spec.names.kind).collect()
        };
        let without = Options {
            rollout_operator_crds: false,
            ..zones()
        };
        assert_eq!(
            names(&zones()),
            ["ZoneRollout", "ZoneAwarePodDisruptionBudget", "ReplicaTemplate"]
        );
        assert_eq!(names(&without), ["ZoneRollout"]);
    }

    #[test]
    fn with_flux_the_agent_gets_no_right_to_apply_anything() {
        let kinds: Vec<Value> = objects(&flags(true, Sync::Flux), SYSTEM_NAMESPACE)
            .into_iter()
            .map(|object| object["roleRef"]["name"].clone())
            .collect();
        assert!(!kinds.contains(&json!("cluster-admin")), "{kinds:?}");
    }
}
