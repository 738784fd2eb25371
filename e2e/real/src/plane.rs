//! One control plane: the arguments of its processes.

use std::{
    fs,
    io::Write,
    net::TcpStream,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    api::Api,
    cache::{Cache, here},
    pki::{Authority, Identity, Login, kubeconfig, token_keys},
    processes::Launch,
};

/// The user of Cluster API's controllers in audit logs.
pub(crate) const CLUSTER_API: &str = "cluster-api";
/// The common name of its certificate.
const SERVER: &str = "kube-apiserver";
/// The group with all permissions.
const MASTERS: &str = "system:masters";
/// The audit policy: metadata of every request, and bodies for writes of Clusters, their control planes and Machines.
/// Without the many requests of the control plane itself.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: [system:nodes, system:serviceaccounts:kube-system]
- level: None
  users: [system:kube-controller-manager, system:kube-scheduler, system:apiserver, kwok]
- level: RequestResponse
  verbs: [create, update, patch]
  resources:
  - {group: cluster.x-k8s.io, resources: [clusters, machines]}
  - {group: controlplane.cluster.x-k8s.io, resources: [kubeadmcontrolplanes]}
- level: Metadata
";

/// A control plane.
pub struct Plane {
    /// The name of the control plane.
    pub name: String,
    /// The URL of its API server.
    pub url: String,
    directory: PathBuf,
    ports: Ports,
    authority: Authority,
}

/// The certificate that an API server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Issued by the trusted authority.
    Good,
    /// Issued by the trusted authority, but expired.
    Expired,
    /// Issued by another authority, which is not trusted yet.
    Foreign,
}

/// The ports of a control plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) apiserver: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
    pub(crate) kwok: u16,
}

/// The address of etcd, and the client certificate files for it.
pub(crate) struct Etcd<'a> {
    pub(crate) url: &'a str,
    pub(crate) pki: &'a Path,
}

impl Plane {
    /// Creates keys and kubeconfigs; no process runs yet.
    pub(crate) fn new(directory: &Path, name: &str, ports: Ports) -> anyhow::Result<Self> {
        let plane = Self {
            name: name.to_owned(),
            url: format!("https://127.0.0.1:{}", ports.apiserver),
            directory: directory.to_owned(),
            ports,
            authority: Authority::new(name)?,
        };
        let pki = plane.pki();
        fs::create_dir_all(&pki)?;
        plane.authority.identity().write(&pki, "ca")?;
        plane.write_certificate(Certificate::Good)?;
        let (private, public) = token_keys()?;
        fs::write(pki.join("tokens.key"), private)?;
        fs::write(pki.join("tokens.pub"), public)?;
        fs::write(pki.join("audit.yaml"), AUDIT)?;
        for (user, groups) in [
            ("system:kube-controller-manager", [].as_slice()),
            ("system:kube-scheduler", &[]),
            ("kwok", &[MASTERS]),
            ("flux", &[MASTERS]),
            (CLUSTER_API, &[MASTERS]),
        ] {
            let text = plane.kubeconfig_of(user, groups)?;
            write_secret(&plane.config(user), &text)?;
        }
        write_secret(&plane.kubeconfig(), &plane.kubeconfig_of("admin", &[MASTERS])?)?;
        Ok(plane)
    }

    /// Installs another certificate, which the API server uses from its next start. Returns the authority that issued
    /// it, PEM.
    pub(crate) fn write_certificate(&self, which: Certificate) -> anyhow::Result<String> {
        let foreign;
        let (authority, identity) = match which {
            Certificate::Good => (&self.authority, self.authority.server(SERVER)?),
            Certificate::Expired => (&self.authority, self.authority.expired_server(SERVER)?),
            Certificate::Foreign => {
                foreign = Authority::new(&self.name)?;
                (&foreign, foreign.server(SERVER)?)
            }
        };
        identity.write(&self.pki(), "apiserver")?;
        Ok(authority.certificate())
    }

    /// Whether a process listens on the API server's port.
    pub(crate) fn listens(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.ports.apiserver)).is_ok()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join(format!("{}.kubeconfig", self.name))
    }

    /// Creates a kubeconfig with a client certificate for a user.
    pub fn kubeconfig_of(&self, user: &str, groups: &[&str]) -> anyhow::Result<String> {
        let identity = self.authority.client(user, groups)?;
        Ok(self.kubeconfig_with(user, &Login::Certificate(&identity)))
    }

    /// Creates a kubeconfig with a ServiceAccount token.
    pub fn kubeconfig_by_token(&self, user: &str, token: &str) -> String {
        self.kubeconfig_with(user, &Login::Token(token))
    }

    /// The audit log: one JSON line per request.
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join(format!("log/{}-audit.log", self.name))
    }

    /// The credentials of the administrator.
    pub(crate) fn api(&self) -> anyhow::Result<Api> {
        let identity = self.authority.client("admin", &[MASTERS])?;
        Api::new(&self.url, &self.authority.certificate(), &identity)
    }

    /// The name of one of its processes.
    pub(crate) fn process(&self, program: &str) -> String {
        format!("{}-{program}", self.name)
    }

    /// Issues a certificate for a server on loopback that the control plane calls.
    pub(crate) fn serving(&self, name: &str) -> anyhow::Result<Identity> {
        self.authority.server(name)
    }

    /// The certificate of the authority: PEM in base64, as in `caBundle` and kubeconfigs.
    pub(crate) fn authority_base64(&self) -> String {
        STANDARD.encode(self.authority.certificate())
    }

    pub(crate) fn config(&self, user: &str) -> PathBuf {
        self.pki()
            .join(format!("{}.kubeconfig", user.trim_start_matches("system:")))
    }

    pub(crate) fn apiserver(&self, cache: &Cache, etcd: &Etcd<'_>) -> Launch {
        let pki = self.pki();
        self.launch(
            cache,
            "kube-apiserver",
            "apiserver",
            &[
                ("bind-address", "127.0.0.1".to_owned()),
                ("secure-port", self.ports.apiserver.to_string()),
                ("advertise-address", "127.0.0.1".to_owned()),
                ("endpoint-reconciler-type", "none".to_owned()),
                ("etcd-servers", etcd.url.to_owned()),
                ("etcd-prefix", format!("/{}", self.name)),
                ("etcd-cafile", text(&etcd.pki.join("ca.crt"))),
                ("etcd-certfile", text(&etcd.pki.join("client.crt"))),
                ("etcd-keyfile", text(&etcd.pki.join("client.key"))),
                ("tls-cert-file", text(&pki.join("apiserver.crt"))),
                ("tls-private-key-file", text(&pki.join("apiserver.key"))),
                ("client-ca-file", text(&pki.join("ca.crt"))),
                ("authorization-mode", "Node,RBAC".to_owned()),
                (
                    "enable-admission-plugins",
                    "NodeRestriction,OwnerReferencesPermissionEnforcement".to_owned(),
                ),
                (
                    "service-account-issuer",
                    "https://kubernetes.default.svc".to_owned(),
                ),
                ("service-account-key-file", text(&pki.join("tokens.pub"))),
                ("service-account-signing-key-file", text(&pki.join("tokens.key"))),
                ("service-cluster-ip-range", "10.96.0.0/16".to_owned()),
                ("allow-privileged", "true".to_owned()),
                ("audit-policy-file", text(&pki.join("audit.yaml"))),
                ("audit-log-path", text(&self.audit_log())),
                ("profiling", "false".to_owned()),
            ],
        )
    }

    pub(crate) fn controller_manager(&self, cache: &Cache) -> Launch {
        let (pki, config) = (self.pki(), text(&self.config("system:kube-controller-manager")));
        self.launch(
            cache,
            "kube-controller-manager",
            "controller-manager",
            &[
                ("bind-address", "127.0.0.1".to_owned()),
                ("secure-port", self.ports.controller_manager.to_string()),
                ("kubeconfig", config.clone()),
                ("authentication-kubeconfig", config.clone()),
                ("authorization-kubeconfig", config),
                ("leader-elect", "false".to_owned()),
                ("use-service-account-credentials", "true".to_owned()),
                ("root-ca-file", text(&pki.join("ca.crt"))),
                ("service-account-private-key-file", text(&pki.join("tokens.key"))),
                ("cluster-signing-cert-file", text(&pki.join("ca.crt"))),
                ("cluster-signing-key-file", text(&pki.join("ca.key"))),
                ("kube-api-qps", "200".to_owned()),
                ("kube-api-burst", "400".to_owned()),
                ("allocate-node-cidrs", "false".to_owned()),
                ("profiling", "false".to_owned()),
            ],
        )
    }

    pub(crate) fn scheduler(&self, cache: &Cache) -> Launch {
        let config = text(&self.config("system:kube-scheduler"));
        self.launch(
            cache,
            "kube-scheduler",
            "scheduler",
            &[
                ("bind-address", "127.0.0.1".to_owned()),
                ("secure-port", self.ports.scheduler.to_string()),
                ("kubeconfig", config.clone()),
                ("authentication-kubeconfig", config.clone()),
                ("authorization-kubeconfig", config),
                ("leader-elect", "false".to_owned()),
                ("profiling", "false".to_owned()),
            ],
        )
    }

    /// The kwok arguments to simulate nodes and pods; a pod whose image has `bad` in its name never becomes ready.
    pub(crate) fn kwok(&self, cache: &Cache) -> anyhow::Result<Launch> {
        let mut stages = cache.files("kwok")?;
        stages.extend(crate::cache::yaml_in(&here("stages"))?);
        let stages = stages.iter().map(|file| ("config", text(file)));
        let address = format!("127.0.0.1:{}", self.ports.kwok);
        let mut arguments = vec![
            ("kubeconfig", text(&self.config("kwok"))),
            ("manage-all-nodes", "true".to_owned()),
            ("cidr", "10.100.0.0/16".to_owned()),
            ("node-ip", "127.0.0.1".to_owned()),
            ("node-port", self.ports.kwok.to_string()),
            ("server-address", address),
            ("node-lease-duration-seconds", "40".to_owned()),
        ];
        arguments.extend(stages);
        Ok(self.launch(cache, "kwok", "kwok", &arguments))
    }

    pub(crate) fn launch(
        &self,
        cache: &Cache,
        program: &str,
        process: &str,
        flags: &[(&str, String)],
    ) -> Launch {
        Launch::new(self.process(process), cache.program(program), flags)
    }

    fn kubeconfig_with(&self, user: &str, login: &Login<'_>) -> String {
        kubeconfig(&self.name, &self.url, &self.authority.certificate(), user, login)
    }

    fn pki(&self) -> PathBuf {
        self.directory.join(format!("{}-pki", self.name))
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}

fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}
