//! Certificates for servers of the tests on loopback.

use std::{net::Ipv4Addr, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_rustls::TlsAcceptor;

/// A certificate for 127.0.0.1, its key, and the authority that issued it, in PEM.
pub(crate) struct Certificate {
    pub chain: String,
    pub key: String,
    pub authority: String,
}

impl Certificate {
    pub(crate) fn of_loopback() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .subject_alt_names
            .push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
        Self {
            chain: params.signed_by(&key, &issuer).unwrap().pem(),
            key: key.serialize_pem(),
            authority: issuer.pem(),
        }
    }

    /// The authority, in the form of a `caBundle`.
    pub(crate) fn bundle(&self) -> String {
        BASE64_STANDARD.encode(&self.authority)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_slice(self.chain.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
