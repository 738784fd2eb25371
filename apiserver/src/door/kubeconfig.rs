//! Kubeconfig files.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Identity;

/// How a user authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// A client certificate.
    Certificate,
    /// A bearer token.
    Token,
}

/// The text of a kubeconfig with one cluster, one user, one context, all named `name`.
pub(crate) fn kubeconfig(
    name: &str,
    address: SocketAddr,
    authority_pem: &str,
    identity: &Identity,
    login: Login,
) -> String {
    let authority = STANDARD.encode(authority_pem);
    let user = match login {
        Login::Certificate => format!(
            "    client-certificate-data: {}\n    client-key-data: {}\n",
            STANDARD.encode(&identity.certificate),
            STANDARD.encode(&identity.key)
        ),
        Login::Token => format!("    token: {}\n", identity.token),
    };
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    certificate-authority-data: {authority}
    server: https://{address}
users:
- name: {name}
  user:
{user}contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
current-context: {name}
"
    )
}
