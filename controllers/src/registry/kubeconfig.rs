//! Parses a kubeconfig from a Secret by an allow-list. A user who may write a Secret must not be able to make this
//! process run a program, read a file, use a proxy or impersonate another user; so every field is either known and
//! harmless, or rejected by its name.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use muster_sync::proxy::Proxy;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{
    hosts::{Hosts, NotAllowed},
    runtime::sendable,
};

/// The largest kubeconfig that is parsed, in bytes: a Secret holds at most 1 MiB, a kubeconfig a few KiB.
const TEXT_MAX: usize = 256 * 1024;

/// The longest name in a message, in characters: Kubernetes has no longer ones.
const NAME_MAX: usize = 253;

/// A secret value, accessible only by [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// The value itself: only for sending it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The accepted content of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The URL of the API server: `https://...`.
    pub server: String,
    /// The CA certificates, PEM.
    pub certificate_authority: Vec<u8>,
    /// The name in the server's certificate, if it differs from the host of its address.
    pub tls_server_name: Option<String>,
    /// The HTTP proxy in front of the server.
    pub proxy: Option<Proxy>,
    /// The bearer token.
    pub token: Option<Secret<String>>,
    /// The client certificate and its key, PEM.
    pub client_certificate: Option<CertificateAndKey>,
}

/// A certificate and its key, PEM.
pub type CertificateAndKey = (Vec<u8>, Secret<Vec<u8>>);

impl Access {
    /// Whether both have the same API server and CA; the credential may differ.
    pub fn same_server(&self, other: &Self) -> bool {
        self.server == other.server
            && self.certificate_authority == other.certificate_authority
            && self.tls_server_name == other.tls_server_name
    }

    /// Checks that the proxy in the kubeconfig is allowed.
    ///
    /// # Errors
    /// The proxy is not allowed.
    pub fn admit(self, proxies: &Hosts) -> Result<Self, KubeconfigError> {
        match self.proxy.as_ref().map(|proxy| proxies.admit(&proxy.origin())) {
            Some(Err(NotAllowed::Host(host) | NotAllowed::Address(host))) => {
                Err(KubeconfigError::Proxy(host))
            }
            None | Some(Ok(_)) => Ok(self),
        }
    }
}

/// Why a kubeconfig is rejected. Never contains one of its values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KubeconfigError {
    /// It is larger than 256 KiB.
    #[error("the kubeconfig has {0} bytes, at most {TEXT_MAX} are read")]
    TooLong(usize),
    /// It is not UTF-8, or not YAML or JSON. The text is not repeated, as it contains credentials.
    #[error("the kubeconfig is not YAML{}", .0.map(|line| format!(" (line {line})")).unwrap_or_default())]
    Syntax(Option<usize>),
    /// It has a field that is not allowed.
    #[error("field {path} is not allowed: {why}")]
    Refused {
        /// The field, such as `users[admin].user.exec`.
        path: String,
        /// Why it is not allowed.
        why: &'static str,
    },
    /// It names a proxy that this process must not use.
    #[error(
        "field proxy-url: proxy {0} is not allowed; start the controller with --proxy-hosts {0}, or remove the field"
    )]
    Proxy(String),
    /// A required field is missing.
    #[error("field {0} is missing")]
    Missing(String),
    /// A field has an invalid value.
    #[error("field {path}: {problem}")]
    Invalid {
        /// Path of the field.
        path: String,
        /// The problem, without the value.
        problem: &'static str,
    },
}

/// Parses the current context of a kubeconfig.
pub fn parse_kubeconfig(text: &[u8]) -> Result<Access, KubeconfigError> {
    if text.len() > TEXT_MAX {
        return Err(KubeconfigError::TooLong(text.len()));
    }
    let text = std::str::from_utf8(text).map_err(|_| KubeconfigError::Syntax(None))?;
    let document =
        muster_sync::yaml::to_json(text).map_err(|error| KubeconfigError::Syntax(Some(error.at.line)))?;
    let root = Fields::of("", &document)?;
    root.allow(&[
        "apiVersion",
        "kind",
        "preferences",
        "extensions",
        "current-context",
        "contexts",
        "clusters",
        "users",
    ])?;
    let current = root.text("current-context")?;
    let context = root.entry_by_name("contexts", current, "context")?;
    context.allow(&["cluster", "user", "namespace", "extensions"])?;
    let cluster = root.entry_by_name("clusters", context.text("cluster")?, "cluster")?;
    let user = root.entry_by_name("users", context.text("user")?, "user")?;
    refuse_cluster_fields(&cluster)?;
    refuse_user_fields(&user)?;
    let access = Access {
        server: server(&cluster)?,
        certificate_authority: cluster
            .base64("certificate-authority-data")?
            .ok_or_else(|| cluster.missing("certificate-authority-data"))?,
        tls_server_name: cluster
            .sendable("tls-server-name", sendable::is_server_name, sendable::SERVER_NAME)?
            .map(str::to_owned),
        proxy: proxy(&cluster)?,
        token: user
            .sendable("token", sendable::is_token, sendable::TOKEN)?
            .map(|token| Secret(token.to_owned())),
        client_certificate: client_certificate(&user)?,
    };
    if access.token.is_none() && access.client_certificate.is_none() {
        return Err(user.missing("token or client-certificate-data"));
    }
    Ok(access)
}

/// Checks the fields of a cluster entry: rejects unknown ones, and known ones that are not allowed, with the reason.
fn refuse_cluster_fields(cluster: &Fields<'_>) -> Result<(), KubeconfigError> {
    cluster.refuse("certificate-authority", FILE)?;
    // The value false has no effect, and some tools write it.
    if cluster.get("insecure-skip-tls-verify") != Some(&Value::Bool(false)) {
        cluster.refuse(
            "insecure-skip-tls-verify",
            "any server could impersonate the API server; use certificate-authority-data",
        )?;
    }
    cluster.allow(&[
        "server",
        "certificate-authority-data",
        "tls-server-name",
        "proxy-url",
        "insecure-skip-tls-verify",
        "disable-compression",
        "extensions",
    ])
}

/// Checks the fields of a user entry.
fn refuse_user_fields(user: &Fields<'_>) -> Result<(), KubeconfigError> {
    user.refuse("exec", "it would run a program on this host")?;
    user.refuse("auth-provider", "it would run a program on this host")?;
    for file in ["tokenFile", "client-certificate", "client-key"] {
        user.refuse(file, FILE)?;
    }
    for field in ["as", "as-uid", "as-groups", "as-user-extra"] {
        user.refuse(field, "impersonation is not supported")?;
    }
    for field in ["username", "password"] {
        user.refuse(
            field,
            "basic authentication is no longer supported by API servers; use token or client-certificate-data",
        )?;
    }
    user.allow(&[
        "token",
        "client-certificate-data",
        "client-key-data",
        "extensions",
    ])
}

/// Why a path to a file is rejected.
const FILE: &str =
    "it would read a file of this host; put the content into the field with the suffix -data, or into token";

fn server(cluster: &Fields<'_>) -> Result<String, KubeconfigError> {
    let server = cluster
        .trimmed("server")?
        .ok_or_else(|| cluster.missing("server"))?;
    let invalid = |problem| KubeconfigError::Invalid {
        path: cluster.path("server"),
        problem,
    };
    if server.starts_with("http://") {
        return Err(KubeconfigError::Refused {
            path: cluster.path("server"),
            why: "http:// would send the credential in clear; use https://",
        });
    }
    let address: http::Uri = server.parse().map_err(|_| invalid("not a URL"))?;
    if address.scheme_str() != Some("https") || address.host().is_none_or(str::is_empty) {
        return Err(invalid("must be https:// and a host"));
    }
    if address
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
        || address.query().is_some()
    {
        return Err(invalid("must have no user and no query"));
    }
    if let Some(problem) = sendable::problem_of_server(&address) {
        return Err(invalid(problem));
    }
    Ok(server.to_owned())
}

/// kube supports only plain HTTP proxies, by the method CONNECT.
fn proxy(cluster: &Fields<'_>) -> Result<Option<Proxy>, KubeconfigError> {
    let Some(text) = cluster.trimmed("proxy-url")? else {
        return Ok(None);
    };
    let invalid = |problem| KubeconfigError::Invalid {
        path: cluster.path("proxy-url"),
        problem,
    };
    let proxy = Proxy::parse(text).map_err(invalid)?;
    if proxy.url().scheme() != "http" {
        return Err(invalid("must be http:// and a host"));
    }
    Ok(Some(proxy))
}

fn client_certificate(user: &Fields<'_>) -> Result<Option<CertificateAndKey>, KubeconfigError> {
    match (
        user.base64("client-certificate-data")?,
        user.base64("client-key-data")?,
    ) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some((certificate, Secret(key)))),
        (Some(_), None) => Err(user.missing("client-key-data")),
        (None, Some(_)) => Err(user.missing("client-certificate-data")),
    }
}

/// A mapping in the kubeconfig, and its path.
struct Fields<'a> {
    at: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(at: &str, value: &'a Value) -> Result<Self, KubeconfigError> {
        let map = value.as_object().ok_or_else(|| KubeconfigError::Invalid {
            path: if at.is_empty() {
                "(document)".to_owned()
            } else {
                at.to_owned()
            },
            problem: "must be a mapping",
        })?;
        Ok(Self {
            at: at.to_owned(),
            map,
        })
    }

    fn path(&self, field: &str) -> String {
        let field = printable(field);
        if self.at.is_empty() {
            field
        } else {
            format!("{}.{field}", self.at)
        }
    }

    fn missing(&self, field: &str) -> KubeconfigError {
        KubeconfigError::Missing(self.path(field))
    }

    /// The value of a field, if it is set.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    fn refuse(&self, field: &str, why: &'static str) -> Result<(), KubeconfigError> {
        match self.get(field) {
            None => Ok(()),
            Some(_) => Err(KubeconfigError::Refused {
                path: self.path(field),
                why,
            }),
        }
    }

    /// Rejects any other field: an unknown field is not known to be harmless.
    fn allow(&self, known: &[&str]) -> Result<(), KubeconfigError> {
        self.map
            .keys()
            .filter(|field| !known.contains(&field.as_str()))
            .try_for_each(|field| self.refuse(field, "muster does not know it"))
    }

    fn optional_text(&self, field: &str) -> Result<Option<&'a str>, KubeconfigError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(KubeconfigError::Invalid {
                path: self.path(field),
                problem: "must be a string",
            }),
        }
    }

    fn text(&self, field: &str) -> Result<&'a str, KubeconfigError> {
        self.optional_text(field)?.ok_or_else(|| self.missing(field))
    }

    /// A string without surrounding white space: `token: |` and files leave a trailing line feed.
    fn trimmed(&self, field: &str) -> Result<Option<&'a str>, KubeconfigError> {
        let text = self.optional_text(field)?.map(str::trim);
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// A string without surrounding white space that can be sent as it is.
    fn sendable(
        &self,
        field: &str,
        is_sendable: fn(&str) -> bool,
        problem: &'static str,
    ) -> Result<Option<&'a str>, KubeconfigError> {
        let text = self.trimmed(field)?;
        if text.is_some_and(|text| !is_sendable(text)) {
            return Err(KubeconfigError::Invalid {
                path: self.path(field),
                problem,
            });
        }
        Ok(text)
    }

    fn base64(&self, field: &str) -> Result<Option<Vec<u8>>, KubeconfigError> {
        let decode = |text: &str| {
            // A block scalar leaves line breaks in.
            let text: String = text
                .chars()
                .filter(|character| !character.is_ascii_whitespace())
                .collect();
            STANDARD.decode(text).map_err(|_| KubeconfigError::Invalid {
                path: self.path(field),
                problem: "must be base64",
            })
        };
        self.optional_text(field)?.map(decode).transpose()
    }

    /// The entry `name` of a list of `{name, <inner>: {...}}`. Other entries are not used, so they are not checked.
    fn entry_by_name(&self, list: &str, name: &str, inner: &str) -> Result<Self, KubeconfigError> {
        let invalid = |problem| KubeconfigError::Invalid {
            path: self.path(list),
            problem,
        };
        let entries = self.get(list).ok_or_else(|| self.missing(list))?;
        let entries = entries.as_array().ok_or_else(|| invalid("must be a list"))?;
        let mut found = entries
            .iter()
            .filter(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
        let at = format!("{list}[{}]", printable(name));
        let entry = found.next().ok_or_else(|| KubeconfigError::Missing(at.clone()))?;
        if found.next().is_some() {
            return Err(invalid("has two entries with the name that is used"));
        }
        Self::of(&at, entry)?.allow(&["name", inner])?;
        let value = entry
            .get(inner)
            .ok_or_else(|| KubeconfigError::Missing(format!("{at}.{inner}")))?;
        Self::of(&format!("{at}.{inner}"), value)
    }
}

/// A name for a message, without control characters and shortened: its author is not trusted.
fn printable(name: &str) -> String {
    name.escape_debug().take(NAME_MAX).collect()
}
