//! Verifies ssh signatures, as `git` does with `ssh-keygen`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use ssh_key::{Algorithm, HashAlg, PublicKey, SshSig, public::KeyData};

use super::{Unverified, instant, object};

/// The namespace of git's signatures.
const NAMESPACE: &str = "git";

/// Key types, by their names in files.
const KINDS: [&str; 7] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Minimum size of an RSA key, in bits.
const MIN_RSA: usize = 2_048;

/// The length of a line of base64, as the signature parser requires it.
const WIDTH: usize = 70;

/// A key that is allowed to sign.
#[derive(Debug, Clone)]
pub(super) struct AllowedSigner {
    key: PublicKey,
    /// Whether the key is allowed to sign for git.
    git: bool,
    /// Period of validity, in seconds since 1970.
    after: Option<i64>,
    before: Option<i64>,
}

/// The keys of a text: lines of an `allowed_signers` file, or public keys only. An error completes a sentence about the
/// text.
pub(super) fn signers(text: &str) -> Result<Vec<AllowedSigner>, String> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| signer(line).map_err(|why| format!("cannot be read in line {number}: {why}")))
        .collect()
}

fn signer(line: &str) -> Result<AllowedSigner, String> {
    let is_kind = |word: &&str| KINDS.contains(word);
    let words = split(line, |character| character == ' ' || character == '\t');
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let kind = words.iter().take(3).position(is_kind);
    let kind =
        kind.ok_or("it is not a public key of a supported ssh type, optionally preceded by its signers")?;
    let base64 = words.get(kind + 1).ok_or("its key is missing")?;
    let key = PublicKey::from_openssh(&format!("{} {base64}", words[kind]))
        .map_err(|_| "its key is not an ssh key")?;
    let mut signer = AllowedSigner {
        key,
        git: true,
        after: None,
        before: None,
    };
    let options = if kind == 2 { words[1] } else { "" };
    for option in split(options, |character| character == ',') {
        signer.set(option)?;
    }
    Ok(signer)
}

/// Splits a text at separators that are not in quotes.
fn split(text: &str, separates: impl Fn(char) -> bool) -> Vec<&str> {
    let mut quoted = false;
    text.split(|character| {
        quoted ^= character == '"';
        !quoted && separates(character)
    })
    .collect()
}

impl AllowedSigner {
    fn set(&mut self, option: &str) -> Result<(), String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = value.trim_matches('"');
        match name.to_ascii_lowercase().as_str() {
            "" => {}
            "namespaces" => {
                if value
                    .split(',')
                    .any(|name| name != "*" && name.contains(['*', '?', '!']))
                {
                    return Err("patterns of namespaces are not supported: write git".to_owned());
                }
                self.git = value.split(',').any(|name| name == NAMESPACE || name == "*");
            }
            "valid-after" => self.after = Some(time(value)?),
            "valid-before" => self.before = Some(time(value)?),
            "cert-authority" => {
                return Err("certificates are not supported: write the keys themselves".to_owned());
            }
            _ => return Err("it has an option that is not supported".to_owned()),
        }
        Ok(())
    }

    /// Whether the key is allowed to sign for git at a time.
    fn allows(&self, at: i64, name: &str) -> Result<(), Unverified> {
        if !self.git {
            return Err(Unverified::NotForSigning {
                key: name.to_owned(),
                why: "is not for git by its namespaces",
            });
        }
        if let Some(after) = self.after.filter(|after| at < *after) {
            return Err(Unverified::EarlyKey {
                key: name.to_owned(),
                at: instant(after),
            });
        }
        match self.before.filter(|before| *before <= at) {
            None => Ok(()),
            Some(before) => Err(Unverified::ExpiredKey {
                key: name.to_owned(),
                at: instant(before),
            }),
        }
    }
}

/// Parses `YYYYMMDD` or `YYYYMMDDHHMM[SS]`, with or without `Z`, as UTC: there is no local time zone here.
fn time(text: &str) -> Result<i64, String> {
    let read = || {
        let digits = text.strip_suffix(['Z', 'z']).unwrap_or(text);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = |at: usize, length: usize| digits.get(at..at + length)?.parse::<i8>().ok();
        let date = Date::new(digits.get(..4)?.parse().ok()?, number(4, 2)?, number(6, 2)?).ok()?;
        let time = match digits.len() {
            8 => Time::midnight(),
            12 => Time::new(number(8, 2)?, number(10, 2)?, 0, 0).ok()?,
            14 => Time::new(number(8, 2)?, number(10, 2)?, number(12, 2)?, 0).ok()?,
            _ => return None,
        };
        let at = TimeZone::UTC
            .to_timestamp(DateTime::from_parts(date, time))
            .ok()?;
        Some(at.as_second())
    };
    read().ok_or_else(|| "a time in it is not one such as 20261231 or 20261231235959".to_owned())
}

/// Verifies a signature of `payload` that claims to be made `at`; returns the name of the key.
pub(super) fn verify_ssh(
    signers: &[AllowedSigner],
    payload: &[u8],
    armored: &str,
    at: i64,
    now: Timestamp,
) -> Result<String, Unverified> {
    let signature = read(armored)?;
    let name = format!("ssh key {}", signature.public_key().fingerprint(HashAlg::Sha256));
    strong(&signature)?;
    if signature.namespace() != NAMESPACE {
        return Err(Unverified::Namespace(
            signature.namespace().chars().take(64).collect(),
        ));
    }
    let mut failure = None;
    for signer in signers
        .iter()
        .filter(|signer| signer.key.key_data() == signature.public_key())
    {
        if signer.key.verify(NAMESPACE, payload, &signature).is_err() {
            return Err(Unverified::Bad(name));
        }
        // At the claimed time, as in git; and now, because the signer may claim any time.
        match signer
            .allows(at, &name)
            .and_then(|()| signer.allows(now.as_second(), &name))
        {
            Ok(()) => return Ok(name),
            Err(found) => failure = Some(found),
        }
    }
    Err(failure.unwrap_or(Unverified::UnknownKey(name)))
}

fn read(armored: &str) -> Result<SshSig, Unverified> {
    let broken =
        Unverified::Broken("it is not an ssh signature, or one by a kind of key that is not supported");
    let body = object::body(armored)?;
    if !body.is_ascii() {
        return Err(broken);
    }
    let mut text = String::with_capacity(armored.len() + 128);
    text.push_str("-----BEGIN SSH SIGNATURE-----\n");
    for line in body.as_bytes().chunks(WIDTH) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str("-----END SSH SIGNATURE-----\n");
    SshSig::from_pem(text).map_err(|_| broken)
}

/// Refuses signatures that can be forged, or made without user presence.
fn strong(signature: &SshSig) -> Result<(), Unverified> {
    let weak = |what: String| Err(Unverified::Weak(what));
    match signature.signature().algorithm() {
        Algorithm::Rsa { hash: None } => return weak("SHA-1".to_owned()),
        Algorithm::Dsa => return weak("a DSA key".to_owned()),
        _ => {}
    }
    match signature.public_key() {
        KeyData::Rsa(key) => {
            let bytes = key.n().as_positive_bytes().unwrap_or_default();
            let zeros = bytes.first().map_or(0, |byte| byte.leading_zeros());
            let bits = (bytes.len() * 8).saturating_sub(usize::try_from(zeros).unwrap_or_default());
            if bits < MIN_RSA {
                return weak(format!("an RSA key of {bits} bits"));
            }
        }
        KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_) => {
            // At the end are a byte of flags, of which the lowest is user presence, and four bytes of a counter.
            let flags = signature.signature_bytes().iter().rev().nth(4);
            if flags.is_none_or(|flags| flags & 1 == 0) {
                return Err(Unverified::Unsupported("a security key that was not touched"));
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on failure")]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    #[track_caller]
    fn read(line: &str) -> (bool, Option<i64>, Option<i64>) {
        let signers = signers(&format!("# ours\n\n{line}\n")).unwrap();
        assert_eq!(signers.len(), 1);
        (signers[0].git, signers[0].after, signers[0].before)
    }

    #[test]
    fn lines_of_allowed_signers_and_keys_alone_are_read() {
        let second = |text: &str| Some(text.parse::<Timestamp>().unwrap().as_second());
        assert_eq!(read(KEY), (true, None, None));
        assert_eq!(read(&format!("{KEY} ann@x")), (true, None, None));
        assert_eq!(read(&format!("ann@x,bob@x {KEY}")), (true, None, None));
        assert_eq!(read(&format!("\"ann of x\" {KEY}")), (true, None, None));
        assert_eq!(
            read(&format!("* namespaces=\"file,git\" {KEY}")),
            (true, None, None)
        );
        assert_eq!(read(&format!("* namespaces=\"file\" {KEY}")), (false, None, None));
        assert_eq!(
            read(&format!(
                "* valid-after=\"20260102\",VALID-BEFORE=\"20270102030405Z\" {KEY} c"
            )),
            (
                true,
                second("2026-01-02T00:00:00Z"),
                second("2027-01-02T03:04:05Z")
            )
        );
    }

    #[test]
    fn lines_that_cannot_be_read_say_why_and_not_what() {
        let refused = |line: &str| signers(&format!("\n{line}")).unwrap_err();
        for (line, why) in [
            (
                format!("* cert-authority {KEY}"),
                "certificates are not supported",
            ),
            (format!("* namespaces=\"g*\" {KEY}"), "patterns"),
            (format!("* no-such-option {KEY}"), "an option"),
            (format!("* valid-after=\"2026\" {KEY}"), "a time"),
            ("* ssh-ed25519 AAAA".to_owned(), "its key is not an ssh key"),
            ("* ssh-ed25519".to_owned(), "its key is missing"),
            ("canary-5up3rs3cret".to_owned(), "it is not a public key"),
        ] {
            let message = refused(&line);
            assert!(
                message.starts_with("cannot be read in line 2: ") && message.contains(why),
                "{message}"
            );
            assert!(
                !message.contains("canary") && !message.contains("no-such"),
                "{message}"
            );
        }
    }
}
