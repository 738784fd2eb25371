//! Settings of `muster zones`, derived from validated flags.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    Error,
    catalogue::find_flag,
    parse::{Given, Value},
};

/// The settings of `muster zones`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Namespace whose StatefulSets are managed.
    pub namespace: String,
    /// DNS domain in the names of pods, with a trailing dot if one was given.
    pub cluster_domain: String,
    /// URL of the API server and path of a kubeconfig file; `None` inside a cluster.
    pub kubeconfig: Option<(String, String)>,
    /// Timeout of a request to the API server.
    pub client_timeout: Option<Duration>,
    /// Timeout of a request to a pod.
    pub pods_timeout: Option<Duration>,
    /// Minimum time between two passes over a group.
    pub interval: Duration,
    /// Port for metrics and probes.
    pub port: u16,
    /// Port of the webhooks; `None` if webhooks are disabled.
    pub webhooks_port: Option<u16>,
    /// Timeout of an admission review.
    pub request_timeout: Duration,
    /// Where the certificate of the webhooks comes from.
    pub certificate: Certificate,
    /// Whether the CA bundle is written to labelled webhook configurations.
    pub update_ca_bundle: bool,
    /// The ConfigMap with downscale times; it is always read.
    pub zone_tracker: String,
    /// Whether downscale times are also written to that ConfigMap.
    pub use_zone_tracker: bool,
    /// Whether downscale times are written to StatefulSets.
    pub last_downscale_annotation: bool,
    /// Timeout for writing `grafana.com/ready-time`.
    pub ready_time_timeout: Duration,
    /// Kinds whose replicas StatefulSets may mirror.
    pub mirror_kinds: Vec<String>,
    /// File with the addresses of pods.
    pub pod_hosts: Option<String>,
}

/// The source of the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// The certificate is generated and rotated by this process.
    SelfSigned {
        /// Name of the Secret that stores the certificate.
        secret: String,
        /// DNS name in the certificate.
        dns_name: String,
        /// Organization in the certificate.
        organization: String,
        /// Validity of the certificate.
        lasts: Duration,
    },
    /// Files that another process rotates.
    Files {
        /// Path of the certificate file.
        certificate: String,
        /// Path of the key file.
        key: String,
    },
    /// No certificate: webhooks are disabled.
    None,
}

impl Settings {
    /// Validates the flags, in the order of rollout-operator.
    pub fn new(given: &Given) -> Result<Self, Error> {
        let read = Read(given);
        check(&read)?;
        let namespace = read.text("kubernetes.namespace")?;
        let webhooks = read.bool("server-tls.enabled")?;
        let certificate = certificate(&read, webhooks, &namespace)?;
        let update_ca_bundle = read.bool("webhooks.update-ca-bundle")?;
        if webhooks && update_ca_bundle && !matches!(certificate, Certificate::SelfSigned { .. }) {
            return invalid(
                "self-signed certificate should be enabled to update the CA bundle in the webhook configurations",
            );
        }
        let api_url = read.text("kubernetes.api-url")?;
        let pod_hosts = read.text("pod-hosts")?;
        Ok(Self {
            cluster_domain: read.text("kubernetes.cluster-domain")?,
            kubeconfig: (!api_url.is_empty()).then_some((api_url, read.text("kubernetes.config-file")?)),
            client_timeout: read.limit("kubernetes.client-timeout")?,
            pods_timeout: read.limit("pods.client-timeout")?,
            interval: read.positive("reconcile.interval")?,
            port: read.port("server.port")?,
            webhooks_port: if webhooks {
                Some(read.port("server-tls.port")?)
            } else {
                None
            },
            request_timeout: read.positive("server-tls.request-timeout")?,
            zone_tracker: read.text("zone-tracker.config-map-name")?,
            use_zone_tracker: read.bool("use-zone-tracker")?,
            last_downscale_annotation: read.bool("write-last-downscale-annotation")?,
            ready_time_timeout: read.positive("zpdb.pod-ready-annotation-patch-timeout")?,
            mirror_kinds: read.list("mirror-kinds")?,
            pod_hosts: (!pod_hosts.is_empty()).then_some(pod_hosts),
            namespace,
            certificate,
            update_ca_bundle,
        })
    }
}

fn invalid<T>(why: &str) -> Result<T, Error> {
    Err(Error::Invalid(why.to_owned()))
}

fn check(read: &Read<'_>) -> Result<(), Error> {
    if read.text("kubernetes.cluster-domain")?.is_empty() {
        return invalid("-kubernetes.cluster-domain cannot be an empty string");
    }
    if read.text("kubernetes.namespace")?.is_empty() {
        return invalid("-kubernetes.namespace has not been specified");
    }
    if read.text("kubernetes.api-url")?.is_empty() != read.text("kubernetes.config-file")?.is_empty() {
        return invalid("either configure both -kubernetes.api-url and -kubernetes.config-file or neither");
    }
    if read.bool("use-zone-tracker")? && read.text("zone-tracker.config-map-name")?.is_empty() {
        return invalid(
            "-use-zone-tracker is true, but -zone-tracker.config-map-name has not been specified",
        );
    }
    read.positive("server-tls.request-timeout")?;
    if read.float("kubernetes.client-qps")? > 0.0 && read.int("kubernetes.client-burst")? < 1 {
        return invalid(
            "-kubernetes.client-burst must be at least 1 when -kubernetes.client-qps is greater than 0, since each request consumes one token",
        );
    }
    read.positive("zpdb.pod-ready-annotation-patch-timeout")?;
    Ok(())
}

fn certificate(read: &Read<'_>, webhooks: bool, namespace: &str) -> Result<Certificate, Error> {
    if !webhooks {
        return Ok(Certificate::None);
    }
    if read.bool("server-tls.self-signed-cert.enabled")? {
        let dns_name = read.text("server-tls.self-signed-cert.dns-name")?;
        return Ok(Certificate::SelfSigned {
            secret: read.text("server-tls.self-signed-cert.secret-name")?,
            dns_name: if dns_name.is_empty() {
                format!("rollout-operator.{namespace}.svc")
            } else {
                dns_name
            },
            organization: read.text("server-tls.self-signed-cert.org")?,
            lasts: read.positive("server-tls.self-signed-cert.expiration")?,
        });
    }
    let certificate = read.text("server-tls.cert-file")?;
    let key = read.text("server-tls.key-file")?;
    if certificate.is_empty() || key.is_empty() {
        return invalid(
            "either self-signed certificate should be enabled or path to the certificate and key should be provided",
        );
    }
    Ok(Certificate::Files { certificate, key })
}

/// Typed access to flag values by name.
struct Read<'a>(&'a Given);

impl Read<'_> {
    fn value(&self, name: &str) -> Result<Value, Error> {
        self.0
            .value(find_flag(name).ok_or_else(|| Error::Unknown(name.to_owned()))?)
    }

    /// Converts a value to the expected type. All names here are in the catalogue; a test catches a wrong type.
    fn of<T>(&self, name: &str, kind: impl FnOnce(Value) -> Option<T>) -> Result<T, Error> {
        kind(self.value(name)?).ok_or_else(|| Error::Invalid(format!("-{name} has a value of another type")))
    }

    fn text(&self, name: &str) -> Result<String, Error> {
        self.of(name, |value| {
            if let Value::Text(text) = value {
                Some(text)
            } else {
                None
            }
        })
    }

    fn list(&self, name: &str) -> Result<Vec<String>, Error> {
        self.of(name, |value| {
            if let Value::List(list) = value {
                Some(list)
            } else {
                None
            }
        })
    }

    fn bool(&self, name: &str) -> Result<bool, Error> {
        self.of(name, |value| {
            if let Value::Bool(bool) = value {
                Some(bool)
            } else {
                None
            }
        })
    }

    fn int(&self, name: &str) -> Result<i64, Error> {
        self.of(name, |value| {
            if let Value::Int(int) = value {
                Some(int)
            } else {
                None
            }
        })
    }

    fn float(&self, name: &str) -> Result<f64, Error> {
        self.of(name, |value| {
            if let Value::Float(float) = value {
                Some(float)
            } else {
                None
            }
        })
    }

    fn duration(&self, name: &str) -> Result<SignedDuration, Error> {
        self.of(name, |value| {
            if let Value::Duration(duration) = value {
                Some(duration)
            } else {
                None
            }
        })
    }

    fn port(&self, name: &str) -> Result<u16, Error> {
        let port = u16::try_from(self.int(name)?);
        port.map_err(|_| Error::Invalid(format!("-{name} must be a port, 0 to 65535")))
    }

    fn positive(&self, name: &str) -> Result<Duration, Error> {
        let duration = self.duration(name)?;
        if duration.is_positive() {
            return Ok(duration.unsigned_abs());
        }
        Err(Error::Invalid(format!("-{name} must be positive")))
    }

    /// `None` if the value is 0 or less.
    fn limit(&self, name: &str) -> Result<Option<Duration>, Error> {
        let duration = self.duration(name)?;
        Ok(duration.is_positive().then(|| duration.unsigned_abs()))
    }
}
