//! Trusted keys, from a Secret.

use std::collections::BTreeMap;
use std::fmt;

use super::super::SourceError;
use super::openpgp::{self, Certificate};
use super::ssh::{self, AllowedSigner};

/// The trusted public keys.
#[derive(Clone, Default)]
pub struct KeyRing {
    pub(super) openpgp: Vec<Certificate>,
    pub(super) ssh: Vec<AllowedSigner>,
}

impl fmt::Debug for KeyRing {
    /// Shows only the number of keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("openpgp", &self.openpgp.len())
            .field("ssh", &self.ssh.len())
            .finish()
    }
}

impl KeyRing {
    /// Reads the data of a Secret: armored OpenPGP public keys under any name; OpenSSH public keys or lines of an
    /// `allowed_signers` file under names that end in `.pub` or are `allowed_signers`. Fails with
    /// [`SourceError::VerificationKeys`] if a value is neither, or contains a private key, or if there are no keys.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, SourceError> {
        let refuse = |why: String| SourceError::VerificationKeys { why };
        let mut ring = Self::default();
        for (name, value) in data {
            let unread = |what: String| refuse(format!("key {name:?} {what}"));
            let text = std::str::from_utf8(value).map_err(|_| {
                unread("is not text: write OpenPGP keys with gpg --export --armor".to_owned())
            })?;
            if text.contains("PRIVATE KEY") {
                return Err(unread(
                    "contains a private key: store only public keys there, and replace that key".to_owned(),
                ));
            }
            if text.contains("-----BEGIN PGP") {
                let read = openpgp::certificates(text);
                ring.openpgp.extend(read.map_err(|what| unread(what.to_owned()))?);
            } else if name.strip_suffix(".pub").is_some() || name == "allowed_signers" {
                ring.ssh.extend(ssh::signers(text).map_err(unread)?);
            } else if !text.trim().is_empty() {
                return Err(unread(
                    "contains no armored OpenPGP key; ssh keys must be under names that end in .pub, or under allowed_signers"
                        .to_owned(),
                ));
            }
        }
        openpgp::merge(&mut ring.openpgp);
        if ring.openpgp.is_empty() && ring.ssh.is_empty() {
            return Err(refuse(
                "the Secret contains no public key: add at least one".to_owned(),
            ));
        }
        Ok(ring)
    }
}
