//! Metrics of the objects and clusters in memory, computed at the scrape.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Resource, ResourceExt};
use muster_api::{
    Assemblage, ClusterUpgrade, ProxyAssemblage, RemoteAssemblage, Shared, ZoneRollout,
    assemblage::SyncState,
    cluster::NotReady,
    conditions::READY,
    module::{Attention, ModuleObject, ModuleSpec, Summary},
    node::{NodeModule, module::NodeSummary},
};
use parking_lot::RwLock;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

use crate::registry::{ClusterState, Registry};

/// An object whose conditions are exported.
pub trait Conditioned: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {
    /// The object's conditions.
    fn conditions(&self) -> &[Condition];

    /// The states of the object's syncs.
    fn syncs(&self) -> &[Shared<SyncState>] {
        &[]
    }
}

/// The exported facts of an object.
pub struct Facts {
    kind: String,
    name: String,
    conditions: Vec<[String; 3]>,
    /// The number of objects assumed healthy without evidence.
    assumed: u32,
    module: Option<ModuleFacts>,
    nodes: Option<NodeModuleFacts>,
}

/// The exported facts of a NodeModule.
struct NodeModuleFacts {
    nodes: Option<NodeSummary>,
    /// The number of nodes by reason.
    reasons: BTreeMap<String, u32>,
    /// The longest wait of a node by reason, in seconds.
    waits: BTreeMap<String, f64>,
    /// The number of nodes that could not restore their previous files.
    stuck: u32,
}

/// The exported facts of a module.
struct ModuleFacts {
    version: String,
    clusters: Option<Summary>,
    /// The longest wait of a cluster by reason, in seconds.
    waits: BTreeMap<String, f64>,
}

impl Facts {
    /// The facts of an object that only has conditions.
    pub fn of<K: Conditioned>(object: &K) -> Self {
        Self {
            kind: K::kind(&()).into_owned(),
            name: object.name_any(),
            conditions: condition_labels(object.conditions()),
            assumed: assumed(object.syncs()),
            module: None,
            nodes: None,
        }
    }

    /// The facts of a module.
    pub fn of_module<K: ModuleObject>(module: &K, now: Timestamp) -> Self {
        let status = module.status();
        let attention = status.map_or(&[][..], |status| &status.attention);
        Self {
            kind: K::kind(&()).into_owned(),
            name: module.name_any(),
            conditions: condition_labels(status.map_or(&[], |status| &*status.conditions)),
            assumed: 0,
            module: Some(ModuleFacts {
                version: version(module.spec()),
                clusters: status.and_then(|status| status.summary.clone()),
                waits: waits_of(attention, now),
            }),
            nodes: None,
        }
    }

    /// The facts of a ClusterUpgrade: it rolls over Clusters as modules do, and has the same metrics.
    pub fn of_upgrade(upgrade: &ClusterUpgrade, now: Timestamp) -> Self {
        let status = upgrade.status.as_ref();
        let attention = status.map_or(&[][..], |status| &status.attention);
        Self {
            kind: ClusterUpgrade::kind(&()).into_owned(),
            name: upgrade.name_any(),
            conditions: condition_labels(status.map_or(&[], |status| &*status.conditions)),
            assumed: 0,
            module: Some(ModuleFacts {
                version: upgrade.spec.target.kubernetes.clone(),
                clusters: status.and_then(|status| status.summary.clone()),
                waits: waits_of(attention, now),
            }),
            nodes: None,
        }
    }

    /// The facts of a NodeModule; `stuck` nodes could not restore their files from before one of its changes.
    pub fn of_node_module(module: &NodeModule, stuck: u32, now: Timestamp) -> Self {
        let status = module.status.clone().unwrap_or_default();
        let attention = status.attention.iter();
        let reasons = status.reasons.iter();
        Self {
            kind: NodeModule::kind(&()).into_owned(),
            name: module.name_any(),
            conditions: condition_labels(&status.conditions),
            assumed: 0,
            module: None,
            nodes: Some(NodeModuleFacts {
                waits: waits(
                    attention.map(|entry| (entry.reason.as_str(), entry.since.as_ref())),
                    now,
                ),
                reasons: reasons.map(|group| (group.reason.clone(), group.count)).collect(),
                nodes: status.summary,
                stuck,
            }),
        }
    }
}

fn waits_of(attention: &[Attention], now: Timestamp) -> BTreeMap<String, f64> {
    let attention = attention.iter();
    waits(
        attention.map(|entry| (entry.reason.as_str(), entry.since.as_ref())),
        now,
    )
}

/// The sum of assumed objects over all syncs.
fn assumed(syncs: &[Shared<SyncState>]) -> u32 {
    let counts = syncs.iter().filter_map(|sync| Some(sync.assumed.as_ref()?.count));
    counts.fold(0, u32::saturating_add)
}

fn condition_labels(conditions: &[Condition]) -> Vec<[String; 3]> {
    let labels_of = |condition: &Condition| {
        [
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
        ]
    };
    conditions.iter().map(labels_of).collect()
}

/// The desired version, as its author wrote it.
fn version(spec: &ModuleSpec) -> String {
    let wanted = spec.sync.source.version();
    // The API server rejects a spec without either.
    wanted.tag.or(wanted.commit).unwrap_or_default()
}

fn waits<'a>(
    attention: impl Iterator<Item = (&'a str, Option<&'a Time>)>,
    now: Timestamp,
) -> BTreeMap<String, f64> {
    let mut waits = BTreeMap::new();
    for (reason, since) in attention {
        let Some(Time(since)) = since else {
            continue;
        };
        let waited = now.duration_since(*since).as_secs_f64().max(0.0);
        let longest: &mut f64 = waits.entry(reason.to_owned()).or_default();
        *longest = longest.max(waited);
    }
    waits
}

macro_rules! conditioned {
    ($($kind:ty),*) => {$(
        impl Conditioned for $kind {
            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map_or(&[], |status| &*status.conditions)
            }

            fn syncs(&self) -> &[Shared<SyncState>] {
                self.status.as_ref().map_or(&[], |status| &*status.syncs)
            }
        }
    )*};
}

conditioned!(Assemblage, ProxyAssemblage, RemoteAssemblage);

impl Conditioned for ZoneRollout {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &*status.conditions)
    }
}

type Source = Box<dyn Fn() -> Vec<Facts> + Send + Sync>;

/// The sources of the facts.
#[derive(Default)]
pub(super) struct Sources {
    objects: RwLock<Vec<Source>>,
    clusters: RwLock<Option<Arc<Registry>>>,
}

impl Sources {
    pub(super) fn add(&self, source: impl Fn() -> Vec<Facts> + Send + Sync + 'static) {
        self.objects.write().push(Box::new(source));
    }

    pub(super) fn clusters(&self, registry: Arc<Registry>) {
        *self.clusters.write() = Some(registry);
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sources")
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut facts: Vec<Facts> = self.objects.read().iter().flat_map(|source| source()).collect();
        facts.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        conditions(&mut encoder, &facts)?;
        without_evidence(&mut encoder, &facts)?;
        modules(&mut encoder, &facts)?;
        node_modules(&mut encoder, &facts)?;
        let clusters = self.clusters.read().clone();
        clusters.map_or(Ok(()), |registry| of_clusters(&mut encoder, &registry))
    }
}

/// A family of gauges.
fn gauges<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = ([(&'static str, String); N], f64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn conditions(encoder: &mut DescriptorEncoder<'_>, facts: &[Facts]) -> fmt::Result {
    let series = facts.iter().flat_map(|object| {
        object.conditions.iter().map(|[type_, status, reason]| {
            let labels = [
                ("kind", object.kind.clone()),
                ("name", object.name.clone()),
                ("type", type_.clone()),
                ("status", status.clone()),
                ("reason", reason.clone()),
            ];
            (labels, 1.0)
        })
    });
    let help = "Conditions of modules and assemblages: 1 for the current status and reason.";
    gauges(encoder, "muster_condition", help, series)
}

fn without_evidence(encoder: &mut DescriptorEncoder<'_>, facts: &[Facts]) -> fmt::Result {
    let series = facts.iter().filter(|object| object.assumed > 0).map(|object| {
        let labels = [("kind", object.kind.clone()), ("name", object.name.clone())];
        (labels, f64::from(object.assumed))
    });
    let help = "Objects of an assemblage that are assumed healthy without evidence from their controllers.";
    gauges(encoder, "muster_assumed_objects", help, series)
}

fn modules(encoder: &mut DescriptorEncoder<'_>, facts: &[Facts]) -> fmt::Result {
    let modules = || {
        facts
            .iter()
            .filter_map(|object| Some((object, object.module.as_ref()?)))
    };
    let name = |object: &Facts| [("kind", object.kind.clone()), ("name", object.name.clone())];
    let infos = modules().map(|(object, module)| {
        let [kind, name] = name(object);
        ([kind, name, ("version", module.version.clone())], 1.0)
    });
    let help = "Modules and their desired versions; always 1.";
    gauges(encoder, "muster_module_info", help, infos)?;
    let clusters = modules().flat_map(|(object, module)| {
        let [kind, name] = name(object);
        let counts = module.clusters.iter().flat_map(counts);
        counts.map(move |(state, count)| {
            let labels = [kind.clone(), name.clone(), ("state", state.to_owned())];
            (labels, f64::from(count))
        })
    });
    let help = "Clusters of a module by state; total counts all selected clusters.";
    gauges(encoder, "muster_module_clusters", help, clusters)?;
    let waits = facts.iter().flat_map(|object| {
        let [kind, name] = name(object);
        let of_module = object.module.as_ref().map(|module| &module.waits);
        let of_nodes = object.nodes.as_ref().map(|module| &module.waits);
        of_module
            .or(of_nodes)
            .into_iter()
            .flatten()
            .map(move |(reason, seconds)| {
                ([kind.clone(), name.clone(), ("reason", reason.clone())], *seconds)
            })
    });
    let help =
        "Longest time that a cluster of a module, or a node of a NodeModule, has been waiting, by reason.";
    gauges(encoder, "muster_rollout_wait_seconds", help, waits)
}

fn node_modules(encoder: &mut DescriptorEncoder<'_>, facts: &[Facts]) -> fmt::Result {
    let all = || {
        let modules = facts.iter();
        modules.filter_map(|object| Some((("name", object.name.clone()), object.nodes.as_ref()?)))
    };
    let nodes = all().flat_map(|(name, module)| {
        let counts = module.nodes.iter().flat_map(node_counts);
        counts.map(move |(state, count)| ([name.clone(), ("state", state.to_owned())], f64::from(count)))
    });
    let help = "Nodes of a NodeModule by state; total counts all selected nodes.";
    gauges(encoder, "muster_nodemodule_nodes", help, nodes)?;
    let reasons = all().flat_map(|(name, module)| {
        let reasons = module.reasons.iter();
        reasons.map(move |(reason, count)| ([name.clone(), ("reason", reason.clone())], f64::from(*count)))
    });
    let help = "Nodes of a NodeModule by the reason of their state.";
    gauges(encoder, "muster_nodemodule_reason_nodes", help, reasons)?;
    let stuck = all().map(|(name, module)| ([name], f64::from(module.stuck)));
    let help = "Nodes that could not restore their files from before a change of a NodeModule.";
    gauges(encoder, "muster_nodemodule_restore_failed_nodes", help, stuck)
}

fn node_counts(summary: &NodeSummary) -> [(&'static str, u32); 9] {
    [
        ("total", summary.total),
        ("updated", summary.updated),
        ("ready", summary.ready),
        ("updating", summary.updating),
        ("waiting", summary.waiting),
        ("failed", summary.failed),
        ("skipped", summary.skipped),
        ("held", summary.held),
        ("withdrawing", summary.withdrawing),
    ]
}

fn counts(summary: &Summary) -> [(&'static str, u32); 9] {
    [
        ("total", summary.total),
        ("updated", summary.updated),
        ("ready", summary.ready),
        ("updating", summary.updating),
        ("waiting", summary.waiting),
        ("failed", summary.failed),
        ("skipped", summary.skipped),
        ("held", summary.held),
        ("withdrawing", summary.withdrawing),
    ]
}

fn of_clusters(encoder: &mut DescriptorEncoder<'_>, registry: &Registry) -> fmt::Result {
    let rows = registry.list();
    let up = rows.iter().map(|row| {
        let is_up = row.bootstrap_state() == ClusterState::Ready;
        ([("cluster", row.name.clone())], f64::from(u8::from(is_up)))
    });
    let help = "Whether a cluster can be rolled out to: its control plane is ready, its kubeconfig is accepted and its API server answers.";
    gauges(encoder, "muster_cluster_up", help, up)?;
    let states = rows.iter().map(|row| {
        let reason = row.state.reason().map_or(READY, NotReady::as_str);
        let labels = [("cluster", row.name.clone()), ("reason", reason.to_owned())];
        (labels, 1.0)
    });
    let help = "State of a cluster: 1 for Ready, or for the reason why nothing is rolled out to it.";
    gauges(encoder, "muster_cluster_state", help, states)?;
    let contacts = rows.iter().filter_map(|row| {
        let seconds = row.last_contact?.as_duration().as_secs_f64();
        Some(([("cluster", row.name.clone())], seconds))
    });
    let help = "Unix time when the API server of a cluster last answered.";
    gauges(
        encoder,
        "muster_cluster_last_contact_timestamp_seconds",
        help,
        contacts,
    )
}
