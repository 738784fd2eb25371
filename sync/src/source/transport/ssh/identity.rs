//! The private key in the Secret: `identity`, and `password` if it is encrypted.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use russh::keys::ssh_key::Kdf;
use russh::keys::{Algorithm, PrivateKey, decode_secret_key};

use super::super::super::SourceError;

/// Maximum length of a key in bytes: an RSA key of 16,384 bits has 13 KiB.
const MAX_BYTES: usize = 32 << 10;

/// Maximum number of rounds of the key derivation function; `ssh-keygen` writes 24 (`-a` sets it).
const MAX_ROUNDS: u32 = 256;

const OPENSSH: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";

/// The command that converts a key to the supported format.
const CONVERT: &str = "rewrite it with `ssh-keygen -p -f <file>`";

/// Parses the key. Errors contain no part of it.
pub(super) fn read(identity: &[u8], passphrase: Option<&str>) -> Result<Arc<PrivateKey>, SourceError> {
    let key = decode(identity, passphrase).map_err(|why| SourceError::Credentials {
        why: format!("key \"identity\" {why}"),
    })?;
    match key.algorithm() {
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. } => Ok(Arc::new(key)),
        other => Err(SourceError::Credentials {
            why: format!(
                "key \"identity\" is of the type {other}, which is not supported; create an ed25519 key"
            ),
        }),
    }
}

fn decode(identity: &[u8], passphrase: Option<&str>) -> Result<PrivateKey, String> {
    let unreadable = || {
        "is not a private key in OpenSSH or PEM format; create one with `ssh-keygen -t ed25519`".to_owned()
    };
    let text = std::str::from_utf8(identity).map_err(|_| unreadable())?;
    if text.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
    }
    let header = text
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("-----BEGIN "));
    let encrypted = text
        .lines()
        .any(|line| line.starts_with("Proc-Type: 4,ENCRYPTED"));
    match header {
        Some(OPENSSH) => openssh(text, passphrase),
        Some("-----BEGIN RSA PRIVATE KEY-----") if encrypted => {
            if !text
                .lines()
                .any(|line| line.starts_with("DEK-Info: AES-128-CBC,"))
            {
                return Err(format!("is encrypted in an unsupported way; {CONVERT}"));
            }
            let passphrase = passphrase.ok_or_else(missing_passphrase)?;
            decode_secret_key(text, Some(passphrase)).map_err(|_| wrong_passphrase())
        }
        Some("-----BEGIN ENCRYPTED PRIVATE KEY-----") => Err(format!(
            "is an encrypted PKCS#8 key, which is not supported; {CONVERT}"
        )),
        Some("-----BEGIN EC PRIVATE KEY-----") if encrypted => {
            Err(format!("is encrypted in an unsupported way; {CONVERT}"))
        }
        Some(
            "-----BEGIN PRIVATE KEY-----"
            | "-----BEGIN RSA PRIVATE KEY-----"
            | "-----BEGIN EC PRIVATE KEY-----",
        ) => decode_secret_key(text, None).map_err(|_| unreadable()),
        Some("-----BEGIN DSA PRIVATE KEY-----") => {
            Err("is a DSA key, which is not supported; create an ed25519 key".to_owned())
        }
        _ => Err(unreadable()),
    }
}

/// Parses OpenSSH's own format. The cost of the passphrase is given in the file: it is checked before it is spent.
fn openssh(text: &str, passphrase: Option<&str>) -> Result<PrivateKey, String> {
    let damaged = || "is damaged: it is incomplete".to_owned();
    let lines = text
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != OPENSSH)
        .skip(1);
    let body: String = lines.take_while(|line| !line.starts_with("-----END ")).collect();
    let bytes = STANDARD.decode(body).map_err(|_| damaged())?;
    let key = PrivateKey::from_bytes(&bytes).map_err(|_| damaged())?;
    if !key.is_encrypted() {
        return Ok(key);
    }
    match key.kdf() {
        Kdf::Bcrypt { rounds, .. } if *rounds > MAX_ROUNDS => {
            return Err(format!(
                "asks for {rounds} rounds, at most {MAX_ROUNDS} are made; {CONVERT}"
            ));
        }
        _ => {}
    }
    let passphrase = passphrase.ok_or_else(missing_passphrase)?;
    key.decrypt(passphrase).map_err(|_| wrong_passphrase())
}

fn missing_passphrase() -> String {
    "is encrypted; put its passphrase into the key \"password\" of the Secret".to_owned()
}

fn wrong_passphrase() -> String {
    "cannot be decrypted with the passphrase in the key \"password\" of the Secret; correct it".to_owned()
}
