//! Revisions and digests of a simulated fleet.

use muster_rollout::{Digest, Revision};

/// The revision with this number; the lower half comes first, as that is what is displayed.
pub fn revision(number: u64) -> Revision {
    let mut bytes = [0; 16];
    for (byte, number) in bytes.iter_mut().zip(number.rotate_left(32).to_be_bytes()) {
        *byte = number;
    }
    Revision::new(bytes)
}

/// The digest of a revision with these values: the first 12 bytes of the revision, and the values.
pub fn digest(revision: Revision, values: u32) -> Digest {
    let text = revision.to_string();
    let bytes = text.as_bytes().chunks(2).map(|pair| {
        let digit = |at: usize| pair.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        u8::try_from(digit(0).unwrap_or(0) * 16 + digit(1).unwrap_or(0)).unwrap_or(0)
    });
    let mut digest = [0; 16];
    for (byte, value) in digest.iter_mut().zip(bytes.take(12).chain(values.to_be_bytes())) {
        *byte = value;
    }
    Digest::new(digest)
}
