//! Keys and certificates: one authority per control plane, so that no credential of one is valid for another.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use serde_json::json;

/// A certificate and its key, PEM.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key`.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> std::io::Result<()> {
        fs::write(directory.join(format!("{name}.crt")), &self.certificate)?;
        fs::write(directory.join(format!("{name}.key")), &self.key)
    }
}

/// A certificate authority.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer })
    }

    pub(crate) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Certificate and key of the authority itself, for programs that sign with it.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            certificate: self.issuer.pem(),
            key: self.issuer.key().serialize_pem(),
        }
    }

    /// A certificate for a server on loopback; etcd also uses it as a client.
    pub(crate) fn server(&self, name: &str) -> anyhow::Result<Identity> {
        self.sign(Self::server_params(name)?)
    }

    /// The same, but expired long ago.
    pub(crate) fn expired_server(&self, name: &str) -> anyhow::Result<Identity> {
        let mut params = Self::server_params(name)?;
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign(params)
    }

    fn server_params(name: &str) -> anyhow::Result<CertificateParams> {
        let names = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        let mut params = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 96, 0, 1)] {
            params
                .subject_alt_names
                .push(SanType::IpAddress(IpAddr::V4(address)));
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        Ok(params)
    }

    /// A certificate for a client: its user name and groups.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> anyhow::Result<Identity> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> anyhow::Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A key pair for signing ServiceAccount tokens: private key and public key, PEM.
pub(crate) fn token_keys() -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// The credentials of a client, as in a kubeconfig.
pub(crate) enum Login<'a> {
    Certificate(&'a Identity),
    Token(&'a str),
}

/// A kubeconfig for a client.
pub(crate) fn kubeconfig(cluster: &str, url: &str, authority: &str, user: &str, login: &Login<'_>) -> String {
    let data = |pem: &str| STANDARD.encode(pem);
    let login = match login {
        Login::Certificate(identity) => json!({
            "client-certificate-data": data(&identity.certificate), "client-key-data": data(&identity.key),
        }),
        Login::Token(token) => json!({"token": token}),
    };
    // JSON is valid YAML.
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": {"server": url, "certificate-authority-data": data(authority)}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "users": [{"name": user, "user": login}],
    });
    format!("{config:#}\n")
}
