//! Verifies the identity of a host with the `known_hosts` in the Secret, as OpenSSH does.
//!
//! Supports plain and hashed names, patterns, `[host]:port`, `@revoked` and `@cert-authority`. A host without a line is
//! refused: no key is trusted on first use.
//!
//! Format: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". Certificates: OpenSSH's PROTOCOL.certkeys.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, EcdsaCurve, HashAlg, PublicKey, PublicKeyOrCertificate};
use sha1::Sha1;

use super::super::super::error::HostKeyRefusal;

/// The port that is omitted from names in `known_hosts`.
pub(super) const DEFAULT_PORT: u16 = 22;

/// Allowed host key algorithms: no DSA, and no SHA-1 signatures.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP256,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP384,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP521,
    },
    Algorithm::Rsa {
        hash: Some(HashAlg::Sha512),
    },
    Algorithm::Rsa {
        hash: Some(HashAlg::Sha256),
    },
];

/// A host by its name in `known_hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// In lower case; an IPv6 address without brackets.
    pub name: String,
    pub port: u16,
}

/// The lines of a file whose keys are supported.
pub(super) struct KnownHosts(Vec<Line>);

struct Line {
    number: usize,
    marker: Marker,
    hosts: Hosts,
    key: KeyData,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    None,
    Revoked,
    Authority,
}

enum Hosts {
    Patterns(Vec<String>),
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

/// The lines of a file for one host.
pub(super) struct HostLines<'a> {
    host: &'a Host,
    lines: Vec<&'a Line>,
}

impl Host {
    /// The name that a line may have for this host: without the default port.
    fn names(&self) -> Vec<String> {
        let with_port = format!("[{}]:{}", self.name, self.port);
        if self.port == DEFAULT_PORT {
            vec![self.name.clone(), with_port]
        } else {
            vec![with_port]
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.port == DEFAULT_PORT {
            f.write_str(&self.name)
        } else {
            write!(f, "[{}]:{}", self.name, self.port)
        }
    }
}

impl KnownHosts {
    /// Parses a file; an error includes the line number.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = Line::parse(number, line).map_err(|why| format!("line {number}: {why}"))?;
            lines.extend(line);
        }
        if lines.is_empty() {
            return Err("it contains no host key; add the lines that `ssh-keyscan` prints".to_owned());
        }
        Ok(Self(lines))
    }

    /// The lines for a host.
    pub(super) fn of<'a>(&'a self, host: &'a Host) -> HostLines<'a> {
        let names = host.names();
        let lines = self.0.iter().filter(|line| line.hosts.match_any(&names));
        HostLines {
            host,
            lines: lines.collect(),
        }
    }
}

impl Line {
    /// Parses a line; `None` if the type of its key is not supported.
    fn parse(number: usize, text: &str) -> Result<Option<Self>, String> {
        let mut fields = text.split_ascii_whitespace().peekable();
        let marker = match fields.next_if(|field| field.starts_with('@')) {
            None => Marker::None,
            Some("@revoked") => Marker::Revoked,
            Some("@cert-authority") => Marker::Authority,
            Some(_) => {
                return Err("its marker is unknown; there are @revoked and @cert-authority".to_owned());
            }
        };
        let (Some(hosts), Some(algorithm), Some(key)) = (fields.next(), fields.next(), fields.next()) else {
            return Err("it has too few fields; write the host, the type of the key and the key".to_owned());
        };
        let hosts = Hosts::parse(hosts)?;
        let key = PublicKey::from_openssh(&format!("{algorithm} {key}")).map_err(|_| {
            "its key cannot be read; write the type and the key as `ssh-keyscan` prints them".to_owned()
        })?;
        let used = matches!(
            key.algorithm(),
            Algorithm::Ed25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. }
        );
        Ok(used.then(|| Self {
            number,
            marker,
            hosts,
            key: key.key_data().clone(),
        }))
    }
}

impl Hosts {
    fn parse(text: &str) -> Result<Self, String> {
        let Some(hashed) = text.strip_prefix('|') else {
            let patterns = text.split(',').filter(|pattern| !pattern.is_empty());
            return Ok(Self::Patterns(patterns.map(str::to_ascii_lowercase).collect()));
        };
        let parts = hashed.strip_prefix("1|").and_then(|rest| rest.split_once('|'));
        let decoded =
            parts.and_then(|(salt, hash)| Some((STANDARD.decode(salt).ok()?, STANDARD.decode(hash).ok()?)));
        let (salt, hash) =
            decoded.ok_or("its hashed name cannot be read; write it as `ssh-keygen -H` does")?;
        Ok(Self::Hashed { salt, hash })
    }

    /// Whether a list of names matches. If a pattern with `!` matches, the line does not apply, whatever the others
    /// match.
    fn match_any(&self, names: &[String]) -> bool {
        let any = |pattern: &str| names.iter().any(|name| glob(pattern, name));
        match self {
            Self::Patterns(patterns) => {
                let mut excluded = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!'));
                !excluded.any(any) && patterns.iter().any(|pattern| any(pattern))
            }
            // HMAC accepts a key of any length.
            Self::Hashed { salt, hash } => Hmac::<Sha1>::new_from_slice(salt).is_ok_and(|mac| {
                let hashes = |name: &String| mac.clone().chain_update(name).verify_slice(hash).is_ok();
                names.iter().any(hashes)
            }),
        }
    }
}

impl HostLines<'_> {
    /// The algorithms to offer, those of known keys first: a host has keys of several types and presents one.
    pub(super) fn algorithms(&self) -> Vec<Algorithm> {
        let known = |algorithm: &Algorithm| {
            self.lines
                .iter()
                .any(|line| line.marker == Marker::None && same_kind(&line.key.algorithm(), algorithm))
        };
        let (mut first, others): (Vec<_>, Vec<_>) = ALGORITHMS.into_iter().partition(known);
        first.extend(others);
        first
    }

    /// The certificate algorithms to offer: none if no authority is known for the host.
    pub(super) fn certificates(&self) -> Vec<Algorithm> {
        if self.lines.iter().any(|line| line.marker == Marker::Authority) {
            ALGORITHMS.to_vec()
        } else {
            Vec::new()
        }
    }

    /// Verifies the key of the host. `now`: seconds since 1970.
    pub(super) fn judge(&self, shown: &PublicKeyOrCertificate, now: u64) -> Result<(), HostKeyRefusal> {
        let key = shown.public_key();
        if let Some(certificate) = shown.certificate() {
            let authority = certificate.signature_key();
            self.check_revoked(authority)?;
            self.check_revoked(key.key_data())?;
            if self.holds(Marker::Authority, authority).is_some() {
                return self
                    .check(certificate, now)
                    .map_err(|why| HostKeyRefusal::Certificate {
                        host: self.host.to_string(),
                        authority: shown_as(authority),
                        why,
                    });
            }
        }
        self.check_revoked(key.key_data())?;
        if self.holds(Marker::None, key.key_data()).is_some() {
            return Ok(());
        }
        let (host, key) = (self.host.to_string(), shown_as(key.key_data()));
        let known = self.lines.iter().filter(|line| line.marker != Marker::Revoked);
        let lines: Vec<String> = known.map(|line| line.number.to_string()).collect();
        Err(if lines.is_empty() {
            HostKeyRefusal::Unknown { host, key }
        } else {
            HostKeyRefusal::Changed {
                host,
                key,
                lines: lines.join(", "),
            }
        })
    }

    fn holds(&self, marker: Marker, key: &KeyData) -> Option<&Line> {
        let mut lines = self.lines.iter().copied();
        lines.find(|line| line.marker == marker && line.key == *key)
    }

    fn check_revoked(&self, key: &KeyData) -> Result<(), HostKeyRefusal> {
        match self.holds(Marker::Revoked, key) {
            None => Ok(()),
            Some(line) => Err(HostKeyRefusal::Revoked {
                host: self.host.to_string(),
                key: shown_as(key),
                line: line.number,
            }),
        }
    }

    /// Verifies a certificate of a known authority: its type, names, validity, and signature.
    fn check(&self, certificate: &Certificate, now: u64) -> Result<(), String> {
        if certificate.cert_type() != CertType::Host {
            return Err("it is for a user, not for a host".to_owned());
        }
        if matches!(
            certificate.signature().algorithm(),
            Algorithm::Rsa { hash: None } | Algorithm::Dsa
        ) {
            return Err("it is signed with SHA-1".to_owned());
        }
        let name = &self.host.name;
        let named = |principal: &String| glob(&principal.to_ascii_lowercase(), name);
        if !certificate.valid_principals().iter().any(named) {
            return Err(format!("it does not name {name}"));
        }
        if certificate.critical_options().iter().next().is_some() {
            return Err("it has a critical option, which host certificates do not have".to_owned());
        }
        if now < certificate.valid_after() {
            return Err("it is not valid yet".to_owned());
        }
        if now >= certificate.valid_before() {
            return Err("it has expired".to_owned());
        }
        let authority = certificate.signature_key().fingerprint(HashAlg::Sha256);
        let valid = certificate.validate_at(now, [&authority]);
        valid.map_err(|_| "its signature is wrong".to_owned())
    }
}

/// Whether a key of this type can sign with this algorithm.
fn same_kind(key: &Algorithm, algorithm: &Algorithm) -> bool {
    matches!((key, algorithm), (Algorithm::Rsa { .. }, Algorithm::Rsa { .. })) || key == algorithm
}

/// A key as shown in messages: `ssh-ed25519 SHA256:…`.
pub(super) fn shown_as(key: &KeyData) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

/// OpenSSH's patterns: `*` matches any text, `?` any one character, and nothing else is special.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut matched) = (0, 0);
    // Where to continue if what follows the last `*` does not match here.
    let mut star = None;
    while matched < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, matched));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[matched] => {
                at += 1;
                matched += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    at = after;
                    matched = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}
