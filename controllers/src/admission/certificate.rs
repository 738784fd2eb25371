//! The certificates of the admission server, as stored in a Secret: which of them must be renewed, and when. Pure
//! except for the keys, which are random.
//!
//! muster's own certificate authority signs the server's certificate. API servers trust the authority by the `caBundle`
//! of webhook configurations, so a new authority is published there before it signs anything:
//!
//! ```text
//!   nothing usable ─► authority and certificate
//!   authority is old, or its key is missing ─► a new authority is added first to the bundle, the certificate stays
//!   certificate is old, or signed by an older authority, and the newest was published SPREAD ago ─► a new certificate
//!   the certificate of the newest authority is older than SPREAD ─► older authorities are removed from the bundle
//! ```
//!
//! The Secret of rollout-operator (`ca`, `cert`, `key`) is used as is: its certificate is served until it is due for
//! renewal.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use thiserror::Error;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
    time::ASN1Time,
};

use super::server;

/// How long a new authority is in all bundles before it signs anything: API servers read webhook configurations by
/// watches.
pub const SPREAD: Duration = Duration::from_mins(1);

/// The lifetime of an authority, as a multiple of a certificate's.
const AUTHORITY_LIVES: i32 = 10;

/// Keys of the Secret; the first three are those of rollout-operator.
pub mod key {
    /// The certificate authorities (PEM), newest first.
    pub const AUTHORITIES: &str = "ca";
    /// The server's certificate (PEM).
    pub const CERTIFICATE: &str = "cert";
    /// The private key of the server's certificate (PEM).
    pub const KEY: &str = "key";
    /// The private key of the newest authority (PEM).
    pub const AUTHORITY_KEY: &str = "ca-key";
}

/// The subject of generated certificates (flags `server-tls.self-signed-cert.*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The DNS names of the admission server.
    pub dns_names: Vec<String>,
    /// The organization (O) of the subject.
    pub org: String,
    /// How long a certificate is valid.
    pub expiration: Duration,
}

/// The content of the Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The certificate authorities (PEM), newest first.
    pub authorities: String,
    /// The server's certificate (PEM).
    pub certificate: String,
    /// The private key of the server's certificate (PEM).
    pub key: String,
    /// The private key of the newest authority (PEM); empty if rollout-operator created the authority.
    pub authority_key: String,
}

/// Certificates could not be created.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The names or the time are not valid in a certificate.
    #[error("a certificate for {0} cannot be created")]
    Make(String, #[source] rcgen::Error),
    /// The clock of this machine shows a time that is not valid in a certificate.
    #[error("{0} is not a valid time in a certificate")]
    Time(Timestamp),
}

/// What to do with stored certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// They are good until this time.
    Keep(Timestamp),
    /// Replace them with these.
    Replace(Box<Stored>),
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored")
            .field("authorities", &self.authorities)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl Stored {
    /// The content of a Secret's `data`, decoded; a key that is absent or not text is empty.
    pub fn read(data: &BTreeMap<String, Vec<u8>>) -> Self {
        let text = |key: &str| {
            let bytes = data.get(key).map(Vec::as_slice).unwrap_or_default();
            std::str::from_utf8(bytes).unwrap_or_default().to_owned()
        };
        Self {
            authorities: text(key::AUTHORITIES),
            certificate: text(key::CERTIFICATE),
            key: text(key::KEY),
            authority_key: text(key::AUTHORITY_KEY),
        }
    }

    /// The content as the `data` of a Secret, decoded.
    pub fn data(&self) -> BTreeMap<String, Vec<u8>> {
        [
            (key::AUTHORITIES, &self.authorities),
            (key::CERTIFICATE, &self.certificate),
            (key::KEY, &self.key),
            (key::AUTHORITY_KEY, &self.authority_key),
        ]
        .into_iter()
        .map(|(key, text)| (key.to_owned(), text.clone().into_bytes()))
        .collect()
    }
}

/// When the first certificate of a chain ends, if it can be read.
pub fn expires(chain: &str) -> Option<Timestamp> {
    certificates(chain)
        .first()
        .map(|certificate| certificate.not_after)
}

/// What to do with the certificates at `now`.
pub fn next_certificate_step(
    stored: &Stored,
    subject: &Subject,
    now: Timestamp,
) -> Result<Step, CertificateError> {
    let authorities = certificates(&stored.authorities);
    let certificate = certificates(&stored.certificate).into_iter().next();
    let usable =
        certificate.filter(|certificate| certificate.is_usable(&authorities, subject, &stored.key, now));
    let newest = authorities.first();
    let (Some(certificate), Some(newest)) = (usable, newest) else {
        return Ok(Step::Replace(Box::new(Stored::new(subject, now)?)));
    };
    let signs = KeyPair::from_pem(&stored.authority_key).is_ok();
    if !signs || newest.is_old(now) {
        return stored.with_new_authority(subject, now).map(replace);
    }
    let of_newest = certificate.issuer == newest.subject;
    let due = if of_newest {
        certificate.old_at()
    } else {
        spread(newest)
    };
    if now >= due {
        return stored.with_new_certificate(subject, now).map(replace);
    }
    let unneeded = of_newest && authorities.len() > 1;
    if unneeded && now >= spread(&certificate) {
        let authorities = newest.pem.clone();
        return Ok(replace(Stored {
            authorities,
            ..stored.clone()
        }));
    }
    let next = if unneeded {
        due.min(spread(&certificate))
    } else {
        due
    };
    Ok(Step::Keep(next.min(newest.old_at())))
}

/// When all API servers know the new certificate.
fn spread(made: &Read) -> Timestamp {
    let spread = SignedDuration::try_from(SPREAD).unwrap_or_default(); // a minute is in range
    made.not_before.checked_add(spread).unwrap_or(Timestamp::MAX)
}

fn replace(stored: Stored) -> Step {
    Step::Replace(Box::new(stored))
}

impl Stored {
    fn new(subject: &Subject, now: Timestamp) -> Result<Self, CertificateError> {
        let (authority, authority_key) = authority(subject, now)?;
        Self {
            authorities: authority,
            authority_key,
            ..Self::default()
        }
        .with_new_certificate(subject, now)
    }

    fn with_new_authority(&self, subject: &Subject, now: Timestamp) -> Result<Self, CertificateError> {
        let (authority, authority_key) = authority(subject, now)?;
        Ok(Self {
            authorities: format!("{authority}{}", self.authorities),
            authority_key,
            ..self.clone()
        })
    }

    /// Replaces the server's certificate with one signed by the newest authority.
    fn with_new_certificate(&self, subject: &Subject, now: Timestamp) -> Result<Self, CertificateError> {
        let error = |error| CertificateError::Make(subject.dns_names.join(", "), error);
        let mut params = CertificateParams::new(subject.dns_names.clone()).map_err(error)?;
        let name = subject.dns_names.first().cloned().unwrap_or_default();
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .distinguished_name
            .push(DnType::OrganizationName, subject.org.clone());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity(now, subject.expiration, 1)?;
        let authority_key = KeyPair::from_pem(&self.authority_key).map_err(error)?;
        let issuer = Issuer::from_ca_cert_pem(&self.authorities, authority_key).map_err(error)?;
        let key = KeyPair::generate().map_err(error)?;
        let certificate = params.signed_by(&key, &issuer).map_err(error)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            ..self.clone()
        })
    }
}

/// A new authority and its key, PEM.
fn authority(subject: &Subject, now: Timestamp) -> Result<(String, String), CertificateError> {
    // Authorities differ by their names.
    let name = format!("muster zones {}", now.as_second());
    let error = |error| CertificateError::Make(name.clone(), error);
    let mut params = CertificateParams::new(Vec::new()).map_err(error)?;
    params.distinguished_name.push(DnType::CommonName, name.clone());
    params
        .distinguished_name
        .push(DnType::OrganizationName, subject.org.clone());
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) = validity(now, subject.expiration, AUTHORITY_LIVES)?;
    let key = KeyPair::generate().map_err(error)?;
    let certificate = params.self_signed(&key).map_err(error)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn validity(
    now: Timestamp,
    expiration: Duration,
    times: i32,
) -> Result<(time::OffsetDateTime, time::OffsetDateTime), CertificateError> {
    let until = SignedDuration::try_from(expiration)
        .ok()
        .and_then(|expiration| expiration.checked_mul(times))
        .and_then(|life| now.checked_add(life).ok())
        .ok_or(CertificateError::Time(now))?;
    let of = |at: Timestamp| {
        time::OffsetDateTime::from_unix_timestamp(at.as_second()).map_err(|_| CertificateError::Time(at))
    };
    Ok((of(now)?, of(until)?))
}

/// The facts that are read from a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    pem: String,
    subject: Vec<u8>,
    issuer: Vec<u8>,
    dns_names: Vec<String>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl Read {
    fn of(pem: &str) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?; // skips what is not a certificate
        let (_, certificate) = X509Certificate::from_der(&der).ok()?; // the same
        let names = certificate.subject_alternative_name().ok().flatten(); // unreadable names count as absent
        let names = names.map(|names| &names.value.general_names);
        let dns_names = names.into_iter().flatten().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
        let at = |time: ASN1Time| Timestamp::from_second(time.timestamp()).ok(); // skips a certificate with an invalid time
        Some(Self {
            pem: pem.to_owned(),
            subject: certificate.subject().as_raw().to_vec(),
            issuer: certificate.issuer().as_raw().to_vec(),
            dns_names: dns_names.collect(),
            not_before: at(certificate.validity().not_before)?,
            not_after: at(certificate.validity().not_after)?,
        })
    }

    /// When two thirds of its lifetime are over.
    fn old_at(&self) -> Timestamp {
        let life = self.not_after.duration_since(self.not_before);
        self.not_before
            .checked_add(life / 3 * 2)
            .unwrap_or(self.not_after)
    }

    fn is_old(&self, now: Timestamp) -> bool {
        now >= self.old_at()
    }

    /// Whether the server can use it: it is valid, has the names, is signed by one of the authorities, and matches the
    /// key.
    fn is_usable(&self, authorities: &[Self], subject: &Subject, key: &str, now: Timestamp) -> bool {
        let has_names = subject.dns_names.iter().all(|name| self.dns_names.contains(name));
        let is_signed = authorities
            .iter()
            .any(|authority| authority.subject == self.issuer && now < authority.not_after);
        has_names && is_signed && now < self.not_after && server::certified_key(&self.pem, key).is_ok()
    }
}

/// The certificates of a bundle; anything between them is skipped.
fn certificates(bundle: &str) -> Vec<Read> {
    let parts = bundle.split_inclusive("-----END CERTIFICATE-----\n");
    parts.filter_map(Read::of).collect()
}
