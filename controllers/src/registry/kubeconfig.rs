//! Reading a kubeconfig that a Secret holds: by an allow-list. Whoever may write a Secret must not be able to make this process run a
//! program, read a file, use a proxy or act as somebody else; so every field is either known and harmless, or refused by its name.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use muster_sync::proxy::Proxy;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{
    hosts::{Hosts, NotAllowed},
    runtime::sendable,
};

/// The largest kubeconfig that is read, in bytes: a Secret holds at most 1 MiB, a kubeconfig a few KiB.
const TEXT_MAX: usize = 256 * 1024;

/// The longest name that a message repeats, in characters: Kubernetes has no longer ones.
const NAME_MAX: usize = 253;

/// A secret text: shown by nothing but [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// The value itself: for the one place that sends it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// What a kubeconfig may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// `https://...`
    pub server: String,
    /// PEM.
    pub certificate_authority: Vec<u8>,
    /// The name that the server's certificate must have, if it is not that of the server's address.
    pub tls_server_name: Option<String>,
    /// The HTTP proxy that leads to the server.
    pub proxy: Option<Proxy>,
    /// Bearer token.
    pub token: Option<Secret<String>>,
    /// Certificate and key, PEM.
    pub client_certificate: Option<CertificateAndKey>,
}

/// A certificate and its key, PEM.
pub type CertificateAndKey = (Vec<u8>, Secret<Vec<u8>>);

impl Access {
    /// The same API server, seen by the same CA; the credential may differ.
    pub fn same_server(&self, other: &Self) -> bool {
        self.server == other.server
            && self.certificate_authority == other.certificate_authority
            && self.tls_server_name == other.tls_server_name
    }

    /// Whether this process may use the proxy that the kubeconfig names.
    ///
    /// # Errors
    /// It may not.
    pub fn admit(self, proxies: &Hosts) -> Result<Self, KubeconfigError> {
        match self.proxy.as_ref().map(|proxy| proxies.admit(&proxy.origin())) {
            Some(Err(NotAllowed::Host(host) | NotAllowed::Address(host))) => {
                Err(KubeconfigError::Proxy(host))
            }
            None | Some(Ok(_)) => Ok(self),
        }
    }
}

/// Why a kubeconfig is refused. Never contains a value of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KubeconfigError {
    /// More than 256 KiB.
    #[error("the kubeconfig has {0} bytes, at most {TEXT_MAX} are read")]
    TooLong(usize),
    /// Not UTF-8, or not YAML or JSON. The text is not repeated: it holds credentials.
    #[error("the kubeconfig is not YAML{}", .0.map(|line| format!(" (line {line})")).unwrap_or_default())]
    Syntax(Option<usize>),
    /// A field that may not be there.
    #[error("field {path} is not allowed: {why}")]
    Refused {
        /// The field, e.g. `users[admin].user.exec`.
        path: String,
        /// Why it is not.
        why: &'static str,
    },
    /// A proxy that this process may not use.
    #[error(
        "field proxy-url: proxy {0} is not allowed; start the controller with --proxy-hosts {0}, or remove the field"
    )]
    Proxy(String),
    /// A field that must be there.
    #[error("field {0} is missing")]
    Missing(String),
    /// A field of the wrong form.
    #[error("field {path}: {problem}")]
    Invalid {
        /// The field.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Reads the current context of a kubeconfig.
pub fn parse(text: &[u8]) -> Result<Access, KubeconfigError> {
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
    let context = root.named("contexts", current, "context")?;
    context.allow(&["cluster", "user", "namespace", "extensions"])?;
    let cluster = root.named("clusters", context.text("cluster")?, "cluster")?;
    let user = root.named("users", context.text("user")?, "user")?;
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

/// The fields of a cluster entry: those that are known, the others with the reason why they may not be there.
fn refuse_cluster_fields(cluster: &Fields<'_>) -> Result<(), KubeconfigError> {
    cluster.refuse("certificate-authority", FILE)?;
    // Said to be false it does nothing, and tools write it so.
    if cluster.get("insecure-skip-tls-verify") != Some(&Value::Bool(false)) {
        cluster.refuse(
            "insecure-skip-tls-verify",
            "anybody could answer as the API server; use certificate-authority-data",
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

/// The fields of a user entry.
fn refuse_user_fields(user: &Fields<'_>) -> Result<(), KubeconfigError> {
    user.refuse("exec", "it would start a program here")?;
    user.refuse("auth-provider", "it would start a program here")?;
    for file in ["tokenFile", "client-certificate", "client-key"] {
        user.refuse(file, FILE)?;
    }
    for field in ["as", "as-uid", "as-groups", "as-user-extra"] {
        user.refuse(field, "muster acts as nobody but the holder of the credential")?;
    }
    for field in ["username", "password"] {
        user.refuse(
            field,
            "basic authentication is no longer known to API servers; use token or client-certificate-data",
        )?;
    }
    user.allow(&[
        "token",
        "client-certificate-data",
        "client-key-data",
        "extensions",
    ])
}

/// Why a path to a file is refused.
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

/// kube reaches API servers by the method CONNECT of plain HTTP proxies alone.
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

/// A mapping of the kubeconfig, and where it stands.
struct Fields<'a> {
    at: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(at: &str, value: &'a Value) -> Result<Self, KubeconfigError> {
        let map = value.as_object().ok_or_else(|| KubeconfigError::Invalid {
            path: if at.is_empty() {
                "(the whole)".to_owned()
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
        let field = shown(field);
        if self.at.is_empty() {
            field
        } else {
            format!("{}.{field}", self.at)
        }
    }

    fn missing(&self, field: &str) -> KubeconfigError {
        KubeconfigError::Missing(self.path(field))
    }

    /// A field that is there with a value.
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

    /// Any other field is refused: what is not known cannot be known to be harmless.
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

    /// A text without the white space around it: `token: |` and files leave a line feed behind.
    fn trimmed(&self, field: &str) -> Result<Option<&'a str>, KubeconfigError> {
        let text = self.optional_text(field)?.map(str::trim);
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// A text without the white space around it that can be sent as it is.
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
            // Line breaks are what a block scalar leaves in.
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

    /// The entry `name` of a list of `{name, <inner>: {...}}`. Other entries are not read: nothing is taken from them.
    fn named(&self, list: &str, name: &str, inner: &str) -> Result<Self, KubeconfigError> {
        let invalid = |problem| KubeconfigError::Invalid {
            path: self.path(list),
            problem,
        };
        let entries = self.get(list).ok_or_else(|| self.missing(list))?;
        let entries = entries.as_array().ok_or_else(|| invalid("must be a list"))?;
        let mut found = entries
            .iter()
            .filter(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
        let at = format!("{list}[{}]", shown(name));
        let entry = found.next().ok_or_else(|| KubeconfigError::Missing(at.clone()))?;
        if found.next().is_some() {
            return Err(invalid("has two entries of the name that is used"));
        }
        Self::of(&at, entry)?.allow(&["name", inner])?;
        let value = entry
            .get(inner)
            .ok_or_else(|| KubeconfigError::Missing(format!("{at}.{inner}")))?;
        Self::of(&format!("{at}.{inner}"), value)
    }
}

/// A name for a message: whoever writes a kubeconfig does not write into a terminal, and not pages.
fn shown(name: &str) -> String {
    name.escape_debug().take(NAME_MAX).collect()
}
