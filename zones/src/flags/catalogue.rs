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

const LIMITS: Effect = Effect::None(
    "muster uses a single client, and the API server limits its requests by priority and fairness",
);
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
pub fn find_flag(name: &str) -> Option<&'static Flag> {
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
        "URL of the API server; requires -kubernetes.config-file",
    ),
    flag(
        "kubernetes.client-burst",
        Kind::Int,
        "10",
        LIMITS,
        "Burst of requests above -kubernetes.client-qps",
    ),
    flag(
        "kubernetes.client-qps",
        Kind::Float,
        "5",
        LIMITS,
        "Maximum requests to the API server per second",
    ),
    flag(
        "kubernetes.client-timeout",
        Kind::Duration,
        "5m0s",
        Works,
        "Timeout of a request to the API server; 0 means none",
    ),
    flag(
        "kubernetes.cluster-domain",
        Kind::Text,
        "cluster.local.",
        Works,
        "Cluster domain in the DNS names of pods",
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
        "Timeout of a request to a pod; 0 means none",
    ),
    flag(
        "reconcile.interval",
        Kind::Duration,
        "5s",
        Works,
        "Minimum time between two passes over a group",
    ),
    flag(
        "server-tls.cert-file",
        Kind::Text,
        "",
        Works,
        "Path of the certificate file of the webhooks, if it is not self-signed",
    ),
    flag(
        "server-tls.enabled",
        Kind::Bool,
        "false",
        Works,
        "Whether the webhook server is enabled",
    ),
    flag(
        "server-tls.key-file",
        Kind::Text,
        "",
        Works,
        "Path of the key file of the webhooks, if the certificate is not self-signed",
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
        "Timeout of an admission review; webhooks answer within 90% of it",
    ),
    flag(
        "server-tls.self-signed-cert.dns-name",
        Kind::Text,
        "",
        Works,
        "DNS name in the certificate; rollout-operator.NAMESPACE.svc if empty",
    ),
    flag(
        "server-tls.self-signed-cert.enabled",
        Kind::Bool,
        "true",
        Works,
        "Whether the certificate is generated and rotated by this process",
    ),
    flag(
        "server-tls.self-signed-cert.expiration",
        Kind::Days,
        "0s",
        Works,
        "Validity of the certificate",
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
        "Secret that stores the certificate",
    ),
    flag(
        "server.cluster-validation.http.enabled",
        Kind::Bool,
        "false",
        CLUSTER_VALIDATION,
        "Whether requests require a cluster validation label",
    ),
    flag(
        "server.cluster-validation.http.excluded-paths",
        Kind::List,
        "",
        CLUSTER_VALIDATION,
        "Paths that do not require the cluster validation label",
    )
    .effectively("admission/no-downscale,admission/prepare-downscale"),
    flag(
        "server.cluster-validation.http.excluded-user-agents",
        Kind::List,
        "",
        CLUSTER_VALIDATION,
        "User agents that do not require the cluster validation label",
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
        "Whether downscale times are also written to the zone tracker's ConfigMap",
    ),
    flag(
        "webhooks.update-ca-bundle",
        Kind::Bool,
        "true",
        Works,
        "Whether the CA bundle is written to labelled webhook configurations",
    ),
    flag(
        "write-last-downscale-annotation",
        Kind::Bool,
        "false",
        Works,
        "Whether downscale times are also written to StatefulSets (not in rollout-operator)",
    ),
    flag(
        "zone-tracker.config-map-name",
        Kind::Text,
        "rollout-operator-zone-tracker",
        Works,
        "Name of the zone tracker's ConfigMap",
    ),
    flag(
        "zpdb.pod-ready-annotation-patch-timeout",
        Kind::Duration,
        "5s",
        Works,
        "Timeout for writing grafana.com/ready-time",
    ),
];
