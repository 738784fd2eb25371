//! Verifies OpenPGP signatures as gpg does, or more strictly where gpg leaves the decision to its user.
//!
//! - The signature: version 4 or 6, over binary content, with SHA-2 (256 bits or more) or SHA-3, without unknown
//!   critical subpackets.
//! - Its key, and the primary key: RSA of 2048 bits or more, or an elliptic curve; not revoked, for any reason, at any
//!   time; not expired now; older than the signature; with the signing flag in a valid signature of the primary key. A
//!   subkey must also have signed that it belongs to the primary key (back signature).

use std::cmp::Reverse;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pgp::composed::{Deserializable as _, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SignatureVersion, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails, KeyVersion, PublicParams, Tag};

use super::packets::{self, PUBLIC_KEY, SIGNATURE, Unread};
use super::{Unverified, instant, object};

/// A public key with its self-signatures.
#[derive(Debug, Clone)]
pub(super) struct Certificate(SignedPublicKey);

/// The tolerated clock skew of a signer, in seconds.
const SKEW: i64 = 300;

/// Minimum size of an RSA key, in bits.
const MIN_RSA: u16 = 2_048;

/// The keys of all armored blocks of a text. An error completes a sentence about the text.
pub(super) fn certificates(text: &str) -> Result<Vec<Certificate>, &'static str> {
    const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
    const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
    const BROKEN: &str = "cannot be read as OpenPGP keys: export them again (gpg --export --armor)";
    let mut certificates = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("-----BEGIN ") {
        let block = &rest[start..];
        if !block.starts_with(BEGIN) {
            return Err("contains an armored block that is not a public key");
        }
        let end = block.find(END).ok_or(BROKEN)? + END.len();
        let bytes = decode(&block[..end]).ok_or(BROKEN)?;
        let kinds = packets::kinds(&bytes, 1).map_err(|unread| match unread {
            Unread::Private => "contains a private key: store only public keys there, and replace that key",
            Unread::Broken | Unread::Nested => BROKEN,
        })?;
        let keys: Vec<SignedPublicKey> = SignedPublicKey::from_bytes_many(bytes.as_slice())
            .and_then(Iterator::collect)
            .map_err(|_| BROKEN)?;
        let written = packets::count(&kinds, PUBLIC_KEY);
        if written == 0 || keys.len() != written || keys.iter().any(|key| !is_modern(key)) {
            return Err("contains an OpenPGP key of a version or type that is not supported (4 and 6 are)");
        }
        certificates.extend(keys.into_iter().map(Certificate));
        rest = &block[end..];
    }
    Ok(certificates)
}

/// Merges several copies of a key: a revocation in one of them applies.
pub(super) fn merge(certificates: &mut Vec<Certificate>) {
    let mut merged: Vec<Certificate> = Vec::new();
    for Certificate(key) in certificates.drain(..) {
        let same =
            |known: &&mut Certificate| known.0.primary_key.fingerprint() == key.primary_key.fingerprint();
        let Some(Certificate(known)) = merged.iter_mut().find(same) else {
            merged.push(Certificate(key));
            continue;
        };
        known
            .details
            .revocation_signatures
            .extend(key.details.revocation_signatures);
        known
            .details
            .direct_signatures
            .extend(key.details.direct_signatures);
        for user in key.details.users {
            match known.details.users.iter_mut().find(|known| known.id == user.id) {
                Some(known) => known.signatures.extend(user.signatures),
                None => known.details.users.push(user),
            }
        }
        for subkey in key.public_subkeys {
            let fingerprint = subkey.key.fingerprint();
            match known
                .public_subkeys
                .iter_mut()
                .find(|known| known.key.fingerprint() == fingerprint)
            {
                Some(known) => known.signatures.extend(subkey.signatures),
                None => known.public_subkeys.push(subkey),
            }
        }
    }
    *certificates = merged;
}

/// Verifies a detached signature of `payload`; returns the name of the key.
pub(super) fn verify_openpgp(
    certificates: &[Certificate],
    payload: &[u8],
    armored: &str,
    now: Timestamp,
) -> Result<String, Unverified> {
    let signature = read(armored)?;
    let made = check(&signature, now)?;
    let mut failure = None;
    let mut keep = |found: Unverified| match &failure {
        // An error of the key is more specific if the signature itself is good.
        None | Some(Unverified::Bad(_)) => failure = Some(found),
        Some(_) => {}
    };
    for Certificate(key) in certificates {
        if names(&signature, &key.primary_key) {
            let name = name(&key.primary_key);
            match signature.verify(&key.primary_key, payload) {
                Err(_) => keep(Unverified::Bad(name)),
                Ok(()) => match check_signing_key(key, None, made, now) {
                    Ok(()) => return Ok(name),
                    Err(found) => keep(found),
                },
            }
        }
        for subkey in key
            .public_subkeys
            .iter()
            .filter(|subkey| names(&signature, &subkey.key))
        {
            match signature.verify(&subkey.key, payload) {
                Err(_) => keep(Unverified::Bad(name(&subkey.key))),
                Ok(()) => match check_signing_key(key, Some(subkey), made, now) {
                    Ok(()) => return Ok(name(&key.primary_key)),
                    Err(found) => keep(found),
                },
            }
        }
    }
    Err(failure.unwrap_or_else(|| Unverified::UnknownKey(issuer(&signature))))
}

fn decode(block: &str) -> Option<Vec<u8>> {
    STANDARD.decode(object::body(block).ok()?).ok()
}

/// The only signature in an armored block.
fn read(armored: &str) -> Result<Signature, Unverified> {
    let body = object::body(armored)?;
    let broken = Unverified::Broken("it is not an OpenPGP signature");
    let bytes = STANDARD.decode(body).map_err(|_| broken.clone())?;
    match packets::kinds(&bytes, 0) {
        Ok(kinds) if kinds == [SIGNATURE] => {}
        Ok(kinds) if kinds.len() > 1 && kinds.iter().all(|kind| *kind == SIGNATURE) => {
            return Err(Unverified::Several);
        }
        _ => return Err(broken),
    }
    let signature = DetachedSignature::from_bytes(bytes.as_slice()).map_err(|_| broken)?;
    Ok(signature.signature)
}

/// Checks the properties of a signature; returns its creation time, in seconds.
fn check(signature: &Signature, now: Timestamp) -> Result<i64, Unverified> {
    let modern = matches!(signature.version(), SignatureVersion::V4 | SignatureVersion::V6);
    let Some(config) = signature.config().filter(|_| modern) else {
        return Err(Unverified::Unsupported(
            "an OpenPGP signature of an old or unknown version",
        ));
    };
    if config.typ() != SignatureType::Binary {
        return Err(Unverified::Unsupported(
            "an OpenPGP signature that is not over binary content",
        ));
    }
    match config.hash_alg {
        HashAlgorithm::Sha256
        | HashAlgorithm::Sha384
        | HashAlgorithm::Sha512
        | HashAlgorithm::Sha3_256
        | HashAlgorithm::Sha3_512 => {}
        HashAlgorithm::Sha1 => return Err(Unverified::Weak("SHA-1".to_owned())),
        weak => return Err(Unverified::Weak(weak.to_string())),
    }
    let unknown = config.hashed_subpackets().any(|subpacket| {
        let data = &subpacket.data;
        let unknown = matches!(
            data,
            SubpacketData::Notation(_) | SubpacketData::Experimental(..) | SubpacketData::Other(..)
        );
        subpacket.is_critical && unknown
    });
    if unknown {
        return Err(Unverified::Unsupported(
            "an OpenPGP signature with an unknown critical subpacket",
        ));
    }
    let made = signature
        .created()
        .map(|made| i64::from(made.as_secs()))
        .ok_or(Unverified::Broken("it has no creation time"))?;
    if made > now.as_second().saturating_add(SKEW) {
        return Err(Unverified::WrongTime {
            at: instant(made),
            why: "in the future",
        });
    }
    if let Some(end) = end(made, signature.signature_expiration_time()).filter(|end| *end <= now.as_second())
    {
        return Err(Unverified::ExpiredSignature(instant(end)));
    }
    Ok(made)
}

/// Checks the key of a signature made at `at`: a subkey, or the primary key itself.
fn check_signing_key(
    key: &SignedPublicKey,
    subkey: Option<&SignedPublicSubKey>,
    made: i64,
    now: Timestamp,
) -> Result<(), Unverified> {
    let primary = &key.primary_key;
    strong(primary)?;
    if is_revoked(key) {
        return Err(Unverified::Revoked(name(primary)));
    }
    let own = own_signatures(key, now);
    if own.is_empty() {
        return Err(Unverified::NotForSigning {
            key: name(primary),
            why: "has no valid self-signature",
        });
    }
    // The earliest expiry applies: a signature without one does not remove another.
    let ends = own
        .iter()
        .filter_map(|own| end(born(primary), own.key_expiration_time()));
    living(primary, ends.min(), now)?;
    after_birth(primary, made)?;
    let Some(subkey) = subkey else {
        let mut flags = own.iter().filter(|own| says_its_use(own)).peekable();
        if flags.peek().is_some() && flags.all(|own| own.key_flags().sign()) {
            return Ok(());
        }
        return Err(Unverified::NotForSigning {
            key: name(primary),
            why: "is not for signing",
        });
    };
    bound(key, subkey, now)?;
    after_birth(&subkey.key, made)
}

/// Checks a subkey: the primary key must allow it to sign, and it must have signed that it belongs to the primary key.
fn bound(key: &SignedPublicKey, subkey: &SignedPublicSubKey, now: Timestamp) -> Result<(), Unverified> {
    let primary = &key.primary_key;
    strong(&subkey.key)?;
    let of = |kind: SignatureType| {
        let signatures = subkey.signatures.iter();
        signatures.filter(move |signature| {
            signature.typ() == Some(kind)
                && names(signature, primary)
                && signature.verify_subkey_binding(primary, &subkey.key).is_ok()
        })
    };
    // One without an issuer counts too: it is verified with the primary key.
    let mut revocations = subkey.signatures.iter().filter(|signature| {
        signature.typ() == Some(SignatureType::SubkeyRevocation)
            && signature.verify_subkey_binding(primary, &subkey.key).is_ok()
    });
    if revocations.next().is_some() {
        return Err(Unverified::Revoked(name(&subkey.key)));
    }
    let refuse = |why| Unverified::NotForSigning {
        key: name(&subkey.key),
        why,
    };
    let binding = newest(of(SignatureType::SubkeyBinding).filter(|signature| is_live(signature, now)))
        .ok_or_else(|| refuse("is not bound to its primary key"))?;
    living(
        &subkey.key,
        end(born(&subkey.key), binding.key_expiration_time()),
        now,
    )?;
    if !binding.key_flags().sign() {
        return Err(refuse("is not for signing"));
    }
    let back = binding.embedded_signature();
    let back =
        back.filter(|back| is_sound(back) && back.verify_primary_key_binding(&subkey.key, primary).is_ok());
    back.map(|_| ())
        .ok_or_else(|| refuse("has not signed that it belongs to its primary key"))
}

/// The newest valid self-signatures of a key: over the key alone, and over its user ids.
fn own_signatures(key: &SignedPublicKey, now: Timestamp) -> Vec<&Signature> {
    let primary = &key.primary_key;
    let direct = key.details.direct_signatures.iter().filter(|signature| {
        signature.typ() == Some(SignatureType::Key)
            && is_live(signature, now)
            && names(signature, primary)
            && signature.verify_key(primary).is_ok()
    });
    let users = key.details.users.iter().flat_map(|user| {
        let own = |signature: &&Signature| {
            names(signature, primary)
                && signature
                    .verify_certification(primary, Tag::UserId, &user.id)
                    .is_ok()
        };
        let takes_back = |signature: &&Signature| signature.typ() == Some(SignatureType::CertRevocation);
        let revoked = user
            .signatures
            .iter()
            .filter(takes_back)
            .any(|signature| own(&signature));
        let certifying = user.signatures.iter().filter(move |_| !revoked);
        certifying
            .filter(move |signature| !takes_back(signature) && is_live(signature, now) && own(signature))
    });
    [newest(direct), newest(users)].into_iter().flatten().collect()
}

/// The newest of several signatures; if two are of the same second, the one with the earlier expiry.
fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.max_by_key(|signature| {
        let ends = end(0, signature.key_expiration_time()).unwrap_or(i64::MAX);
        (signature.created(), Reverse(ends))
    })
}

/// Whether the key is revoked: by itself, or by a designated revoker, whose key is not needed to be cautious.
fn is_revoked(key: &SignedPublicKey) -> bool {
    let primary = &key.primary_key;
    let users = key.details.users.iter().flat_map(|user| &user.signatures);
    let revokers: Vec<&[u8]> = users
        .chain(&key.details.direct_signatures)
        .filter_map(Signature::revocation_key)
        .map(|revoker| revoker.fingerprint.as_slice())
        .collect();
    // One after a user id is parsed as a signature of that user id.
    let of_users = key.details.users.iter().flat_map(|user| &user.signatures);
    let of_users = of_users.filter(|signature| signature.typ() == Some(SignatureType::KeyRevocation));
    let mut revocations = key.details.revocation_signatures.iter().chain(of_users);
    revocations.any(|revocation| {
        let by_itself = revocation.verify_key(primary).is_ok();
        let fingerprints = revocation.issuer_fingerprint();
        let by_revoker = revokers.iter().any(|revoker| {
            fingerprints.iter().any(|found| found.as_bytes() == *revoker)
                || revocation
                    .issuer_key_id()
                    .iter()
                    .any(|id| revoker.ends_with(id.as_ref()))
        });
        by_itself || by_revoker
    })
}

/// Whether a self-signature over a key is valid now. SHA-1 is accepted for these, as in gpg: both are made by the same
/// owner.
fn is_live(signature: &Signature, now: Timestamp) -> bool {
    let now = now.as_second();
    let made = signature.created().map(|made| i64::from(made.as_secs()));
    made.is_some_and(|made| {
        let ended = end(made, signature.signature_expiration_time()).is_some_and(|end| end <= now);
        made <= now.saturating_add(SKEW) && !ended && is_sound(signature)
    })
}

fn is_sound(signature: &Signature) -> bool {
    let weak = [HashAlgorithm::None, HashAlgorithm::Md5, HashAlgorithm::Ripemd160];
    signature.hash_alg().is_some_and(|hash| !weak.contains(&hash))
}

fn says_its_use(signature: &Signature) -> bool {
    let config = signature.config();
    config.is_some_and(|config| {
        let mut subpackets = config.hashed_subpackets();
        subpackets.any(|subpacket| matches!(subpacket.data, SubpacketData::KeyFlags(_)))
    })
}

/// Refuses weak keys.
fn strong(key: &impl KeyDetails) -> Result<(), Unverified> {
    let weak = |what: String| Err(Unverified::Weak(what));
    match key.public_params() {
        PublicParams::RSA(rsa) => {
            // A number starts with its size in bits.
            let bytes = rsa.to_bytes().unwrap_or_default();
            let bits = bytes.first_chunk().map_or(0, |bits| u16::from_be_bytes(*bits));
            if bits < MIN_RSA {
                return weak(format!("an RSA key of {bits} bits"));
            }
            Ok(())
        }
        PublicParams::DSA(_) => weak("a DSA key".to_owned()),
        _ => Ok(()),
    }
}

/// Refuses an expired key.
fn living(key: &impl KeyDetails, end: Option<i64>, now: Timestamp) -> Result<(), Unverified> {
    match end.filter(|end| *end <= now.as_second()) {
        None => Ok(()),
        Some(end) => Err(Unverified::ExpiredKey {
            key: name(key),
            at: instant(end),
        }),
    }
}

/// Refuses a signature that is older than its key.
fn after_birth(key: &impl KeyDetails, made: i64) -> Result<(), Unverified> {
    if made >= born(key) {
        return Ok(());
    }
    Err(Unverified::WrongTime {
        at: instant(made),
        why: "before its key was created",
    })
}

fn born(key: &impl KeyDetails) -> i64 {
    i64::from(key.created_at().as_secs())
}

/// The expiry, given a start and a duration; 0 is never.
fn end(begin: i64, lasts: Option<pgp::types::Duration>) -> Option<i64> {
    let lasts = lasts.map(|lasts| i64::from(lasts.as_secs()));
    lasts.filter(|lasts| *lasts > 0).map(|lasts| begin + lasts)
}

/// Whether a signature claims to be made by this key. This is not verified here.
fn names(signature: &Signature, key: &impl KeyDetails) -> bool {
    let fingerprint = key.fingerprint();
    let id = key.legacy_key_id();
    signature
        .issuer_fingerprint()
        .into_iter()
        .any(|found| *found == fingerprint)
        || signature.issuer_key_id().into_iter().any(|found| *found == id)
}

fn is_modern(key: &SignedPublicKey) -> bool {
    matches!(key.primary_key.version(), KeyVersion::V4 | KeyVersion::V6)
}

fn name(key: &impl KeyDetails) -> String {
    format!("OpenPGP key {:X}", key.fingerprint())
}

/// The issuer of a signature, for messages.
fn issuer(signature: &Signature) -> String {
    if let Some(fingerprint) = signature.issuer_fingerprint().first() {
        return format!("OpenPGP key {fingerprint:X}");
    }
    let id = signature
        .issuer_key_id()
        .first()
        .map(|id| super::super::commit::hex(id.as_ref()));
    id.map_or_else(
        || "an unnamed OpenPGP key".to_owned(),
        |id| format!("OpenPGP key {}", id.to_ascii_uppercase()),
    )
}
