//! Hashes for names.

/// FNV-1a with 32 bits, as Kubernetes hashes pod templates.
pub(super) fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// FNV-1 with 32 bits, as Kubernetes hashes the data of controller revisions: like FNV-1a, in the other order.
pub(super) fn fnv_1(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte)
    })
}

/// A hash as Kubernetes writes it into names: its decimal digits in an alphabet that spells no words.
pub(super) fn suffix(hash: u32) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let digits = hash.to_string();
    digits
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        assert_eq!(fnv(b""), 0x811c_9dc5);
        assert_eq!(fnv(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv_1(b"foobar"), 0x31f0_b262);
        assert_eq!(suffix(2_685_102_755), "6bd9546c99");
    }
}
