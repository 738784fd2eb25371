//! The server's certificate authority, and the issued credentials.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Keys and certificates could not be created.
#[derive(Debug, thiserror::Error)]
#[error("the server's certificates could not be created; is the system time correct?")]
pub struct CredentialsError(#[from] rcgen::Error);

/// A client's key and certificate, and its token.
#[derive(Clone)]
pub struct Identity {
    /// Name of the user.
    pub name: String,
    /// Client certificate, PEM.
    pub certificate: String,
    /// Private key, PEM.
    pub key: String,
    /// Bearer token of the same user.
    pub token: String,
}

/// The credentials that the server accepts.
pub(crate) struct Credentials {
    authority: CertifiedIssuer<'static, KeyPair>,
    certificates: Mutex<HashMap<Vec<u8>, String>>,
    tokens: Mutex<HashMap<String, String>>,
}

impl Credentials {
    /// Creates a new certificate authority.
    pub(crate) fn new() -> Result<Self, CredentialsError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self {
            authority,
            certificates: Mutex::default(),
            tokens: Mutex::default(),
        })
    }

    /// The authority's certificate, PEM.
    pub(crate) fn authority_pem(&self) -> String {
        self.authority.pem()
    }

    pub(super) fn authority_der(&self) -> CertificateDer<'static> {
        self.authority.der().clone()
    }

    /// Issues a certificate and a token to a user.
    pub(crate) fn issue(&self, name: &str) -> Result<Identity, CredentialsError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.authority)?;
        let token = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        self.certificates
            .lock()
            .insert(certificate.der().to_vec(), name.to_owned());
        self.tokens.lock().insert(token.clone(), name.to_owned());
        Ok(Identity {
            name: name.to_owned(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            token,
        })
    }

    /// Revokes the credentials of a user; open connections stay open.
    pub(crate) fn revoke(&self, name: &str) {
        self.certificates.lock().retain(|_, user| user != name);
        self.tokens.lock().retain(|_, user| user != name);
    }

    /// The server's own certificate and key for loopback.
    pub(super) fn server(
        &self,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), CredentialsError> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "kubernetes".to_owned()])?;
        params
            .subject_alt_names
            .push(rcgen::SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.authority)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok((certificate.der().clone(), key))
    }

    /// The user of a client certificate.
    pub(super) fn user_of_certificate(&self, certificate: &[u8]) -> Option<String> {
        self.certificates.lock().get(certificate).cloned()
    }

    /// The user of a bearer token.
    pub(super) fn user_of_token(&self, token: &str) -> Option<String> {
        self.tokens.lock().get(token).cloned()
    }
}
