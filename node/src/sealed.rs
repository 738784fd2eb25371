//! Files in the agent's own directory: content with a checksum, so that a torn or damaged file is recognized.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// Size of the checksum and the line break after it, in bytes.
const HEAD: usize = 65;

/// SHA-256 of the parts, joined by NUL, in lower-case hex.
pub(crate) fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            hasher.update([0]);
        }
        hasher.update(part);
    }
    HEXLOWER.encode(&hasher.finalize())
}

/// Prepends the checksum to the content.
pub(crate) fn seal(content: &[u8]) -> Vec<u8> {
    let mut sealed = hash(&[content]).into_bytes();
    sealed.push(b'\n');
    sealed.extend_from_slice(content);
    sealed
}

/// The content; `None` if the checksum does not match.
pub(crate) fn open(sealed: &[u8]) -> Option<&[u8]> {
    let (head, content) = sealed.split_at_checked(HEAD)?;
    let fits = head.strip_suffix(b"\n")? == hash(&[content]).as_bytes();
    fits.then_some(content)
}
