//! All flags: those of rollout-operator v0.38.1, and a few of muster's own.

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`; without a value it means true.
    Bool,
    /// An integer.
    Int,
    /// A floating-point number.
    Float,
    /// A Go duration.
    Duration,
    /// A Prometheus duration, which supports days, weeks and years.
    Days,
    /// A string.
    Text,
    /// A list of strings: repeatable, separated by commas.
    List,
}

/// Whether a flag has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The flag works as documented.
    Works,
    /// The flag is accepted and validated, but has no effect; with the reason.
    None(&'static str),
}

/// A command-line flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name of the flag without dashes.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Default value, as printed in the help.
    pub default: &'static str,
    /// The effective default, if it differs from the printed one.
    pub effective: Option<&'static str>,
    /// Whether the flag has an effect.
    pub effect: Effect,
    /// Help text of the flag.
    pub help: &'static str,
}

const LIMITS: Effect =
    Effect::None("muster has one client, and the API server limits its requests by priority and fairness");
const LOG: Effect = Effect::None("set RUST_LOG, and --log-format of muster");
const CLUSTER_VALIDATION: Effect =
    Effect::None("muster does not read cluster validation labels; restrict access by a NetworkPolicy");

impl Kind {
    /// Name of the type in the help.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Duration => "duration",
            Self::Days => "days",
            Self::Text => "text",
            Self::List => "list",
        }
    }
}

const fn flag(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    effect: Effect,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        effective: None,
        effect,
        help,
    }
}

impl Flag {
    const fn effectively(mut self, value: &'static str) -> Self {
        self.effective = Some(value);
        self
    }
}

/// The flag with the given name.
pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

use Effect::Works;

/// All flags, by name.
pub const FLAGS: &[Flag] = &[
    flag(
        "kubernetes.api-url",
        Kind::Text,
        "",
        Works,
        "URL of the API server; needs -kubernetes.config-file",
    ),
    flag(
        "kubernetes.client-burst",
        Kind::Int,
        "10",
        LIMITS,
        "Requests beyond -kubernetes.client-qps at once",
    ),
    flag(
        "kubernetes.client-qps",
        Kind::Float,
        "5",
        LIMITS,
        "Requests to the API server in a second",
    ),
    flag(
        "kubernetes.client-timeout",
        Kind::Duration,
        "5m0s",
        Works,
        "Deadline of a request to the API server; 0 is none",
    ),
    flag(
        "kubernetes.cluster-domain",
        Kind::Text,
        "cluster.local.",
        Works,
        "Domain of the cluster in the names of pods",
    ),
    flag(
        "kubernetes.config-file",
        Kind::Text,
        "",
        Works,
        "Path of a kubeconfig file",
    ),
    flag(
        "kubernetes.namespace",
        Kind::Text,
        "",
        Works,
        "Namespace whose StatefulSets are managed; required",
    ),
    flag("log.format", Kind::Text, "logfmt", LOG, "Format of the log"),
    flag("log.level", Kind::Text, "debug", LOG, "Level of the log"),
    flag(
        "mirror-kinds",
        Kind::List,
        "ReplicaTemplate",
        Works,
        "Kinds whose replicas StatefulSets may mirror (not in rollout-operator)",
    ),
    flag(
        "pod-hosts",
        Kind::Text,
        "",
        Works,
        "File with the addresses of pods, for tests (not in rollout-operator)",
    ),
    flag(
        "pods.client-timeout",
        Kind::Duration,
        "5s",
        Works,
        "Deadline of a request to a pod; 0 is none",
    ),
    flag(
        "reconcile.interval",
        Kind::Duration,
        "5s",
        Works,
        "Least time between two passes over a group",
    ),
    flag(
        "server-tls.cert-file",
        Kind::Text,
        "",
        Works,
        "Path of the certificate of the webhooks, if it is not self-signed",
    ),
    flag(
        "server-tls.enabled",
        Kind::Bool,
        "false",
        Works,
        "Whether webhooks are served",
    ),
    flag(
        "server-tls.key-file",
        Kind::Text,
        "",
        Works,
        "Path of the key of the webhooks, if it is not self-signed",
    ),
    flag(
        "server-tls.port",
        Kind::Int,
        "8443",
        Works,
        "Port of the webhooks",
    ),
    flag(
        "server-tls.request-timeout",
        Kind::Duration,
        "10s",
        Works,
        "Deadline of a review; webhooks answer within 90% of it",
    ),
    flag(
        "server-tls.self-signed-cert.dns-name",
        Kind::Text,
        "",
        Works,
        "Name in the certificate; rollout-operator.NAMESPACE.svc if empty",
    ),
    flag(
        "server-tls.self-signed-cert.enabled",
        Kind::Bool,
        "true",
        Works,
        "Whether the certificate is made and rotated here",
    ),
    flag(
        "server-tls.self-signed-cert.expiration",
        Kind::Days,
        "0s",
        Works,
        "How long a certificate lasts",
    )
    .effectively("1y"),
    flag(
        "server-tls.self-signed-cert.org",
        Kind::Text,
        "Grafana Labs",
        Works,
        "Organization in the certificate",
    ),
    flag(
        "server-tls.self-signed-cert.secret-name",
        Kind::Text,
        "rollout-operator-self-signed-certificate",
        Works,
        "Secret that keeps the certificate",
    ),
    flag(
        "server.cluster-validation.http.enabled",
        Kind::Bool,
        "false",
        CLUSTER_VALIDATION,
        "Whether requests need a label of the cluster",
    ),
    flag(
        "server.cluster-validation.http.excluded-paths",
        Kind::List,
        "",
        CLUSTER_VALIDATION,
        "Paths that need none",
    )
    .effectively("admission/no-downscale,admission/prepare-downscale"),
    flag(
        "server.cluster-validation.http.excluded-user-agents",
        Kind::List,
        "",
        CLUSTER_VALIDATION,
        "User agents that need none",
    ),
    flag(
        "server.cluster-validation.http.soft-validation",
        Kind::Bool,
        "false",
        CLUSTER_VALIDATION,
        "Whether a request without the label is only logged",
    ),
    flag(
        "server.port",
        Kind::Int,
        "8001",
        Works,
        "Port of metrics and probes",
    ),
    flag(
        "use-zone-tracker",
        Kind::Bool,
        "false",
        Works,
        "Whether times of downscales are written into the ConfigMap too",
    ),
    flag(
        "webhooks.update-ca-bundle",
        Kind::Bool,
        "true",
        Works,
        "Whether the authority is written into labelled webhook configurations",
    ),
    flag(
        "write-last-downscale-annotation",
        Kind::Bool,
        "false",
        Works,
        "Whether times of downscales are written into StatefulSets too (not in rollout-operator)",
    ),
    flag(
        "zone-tracker.config-map-name",
        Kind::Text,
        "rollout-operator-zone-tracker",
        Works,
        "Name of that ConfigMap",
    ),
    flag(
        "zpdb.pod-ready-annotation-patch-timeout",
        Kind::Duration,
        "5s",
        Works,
        "Deadline of the write of grafana.com/ready-time",
    ),
];
