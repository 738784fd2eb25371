//! Reads the framing of OpenPGP packets before the packets are parsed: unbounded ones are refused here, so that the
//! parser of their contents, which follows embedded signatures recursively, gets none that is nested deeper than a key
//! needs.

/// Maximum number of signatures in one key: key servers add many of third parties.
const MAX_PACKETS: usize = 20_000;

pub(super) const SIGNATURE: u8 = 2;
pub(super) const PUBLIC_KEY: u8 = 6;
const SECRET_KEY: u8 = 5;
const SECRET_SUBKEY: u8 = 7;

/// Why packets are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// They are truncated, or of a type that is never used for keys and signatures.
    Broken,
    /// One is a private key.
    Private,
    /// A signature is embedded where none is allowed.
    Nested,
}

/// The types of the packets, in order. `depth`: how deep signatures may be nested.
pub(super) fn kinds(bytes: &[u8], depth: usize) -> Result<Vec<u8>, Unread> {
    let mut kinds = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (kind, body, after) = next(rest)?;
        match kind {
            SECRET_KEY | SECRET_SUBKEY => return Err(Unread::Private),
            SIGNATURE => signature(body, depth)?,
            _ => {}
        }
        if kinds.len() == MAX_PACKETS {
            return Err(Unread::Broken);
        }
        kinds.push(kind);
        rest = after;
    }
    Ok(kinds)
}

/// The number of packets of a type.
pub(super) fn count(kinds: &[u8], kind: u8) -> usize {
    kinds.iter().map(|found| usize::from(*found == kind)).sum()
}

/// The first packet: its type and body, and the remaining bytes.
fn next(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), Unread> {
    let (first, rest) = bytes.split_first().ok_or(Unread::Broken)?;
    let (kind, length, rest) = match first {
        0xC0..=0xFF => {
            let (length, rest) = length(rest)?;
            (first & 0x3F, length, rest)
        }
        0x80..=0xBF => {
            let width = match first & 3 {
                0 => 1,
                1 => 2,
                2 => 4,
                // An indeterminate length is never used for keys and signatures.
                _ => return Err(Unread::Broken),
            };
            let (length, rest) = number(rest, width)?;
            ((first >> 2) & 0x0F, length, rest)
        }
        _ => return Err(Unread::Broken),
    };
    let (body, after) = rest.split_at_checked(length).ok_or(Unread::Broken)?;
    Ok((kind, body, after))
}

/// The length of a packet or subpacket. Partial lengths are never used for keys and signatures.
fn length(bytes: &[u8]) -> Result<(usize, &[u8]), Unread> {
    let (first, rest) = bytes.split_first().ok_or(Unread::Broken)?;
    match first {
        0..=191 => Ok((usize::from(*first), rest)),
        192..=223 => {
            let (second, rest) = rest.split_first().ok_or(Unread::Broken)?;
            Ok((
                (usize::from(*first) - 192) * 256 + usize::from(*second) + 192,
                rest,
            ))
        }
        255 => number(rest, 4),
        224..=254 => Err(Unread::Broken),
    }
}

fn number(bytes: &[u8], width: usize) -> Result<(usize, &[u8]), Unread> {
    let (digits, rest) = bytes.split_at_checked(width).ok_or(Unread::Broken)?;
    let number = digits
        .iter()
        .fold(0_u64, |number, digit| number << 8 | u64::from(*digit));
    Ok((usize::try_from(number).map_err(|_| Unread::Broken)?, rest))
}

/// Checks a signature for embedded signatures.
fn signature(body: &[u8], depth: usize) -> Result<(), Unread> {
    let (version, rest) = body.split_first().ok_or(Unread::Broken)?;
    let width = match version {
        4 | 5 => 2,
        6 => 4,
        // Older versions have no subpackets; newer ones are not read.
        _ => return Ok(()),
    };
    let mut rest = rest.get(3..).ok_or(Unread::Broken)?;
    for _area in ["signed", "not signed"] {
        let (length, after) = number(rest, width)?;
        let (mut area, after) = after.split_at_checked(length).ok_or(Unread::Broken)?;
        while !area.is_empty() {
            let (subpacket, after) = subpacket(area)?;
            // 32 is an embedded signature; the highest bit is the critical flag.
            if let Some((32 | 160, within)) = subpacket.split_first() {
                signature(within, depth.checked_sub(1).ok_or(Unread::Nested)?)?;
            }
            area = after;
        }
        rest = after;
    }
    Ok(())
}

/// The first subpacket. Its lengths are encoded as those of packets, except 224 to 254, which also start a two-byte
/// length.
fn subpacket(area: &[u8]) -> Result<(&[u8], &[u8]), Unread> {
    let (length, rest) = match area {
        [first @ 224..=254, second, rest @ ..] => (
            (usize::from(*first) - 192) * 256 + usize::from(*second) + 192,
            rest,
        ),
        _ => length(area)?,
    };
    rest.split_at_checked(length).ok_or(Unread::Broken)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on failure")]
mod tests {
    use super::*;

    /// A version 4 signature that embeds `within`, if it is not empty.
    fn around(within: &[u8]) -> Vec<u8> {
        let mut area = Vec::new();
        if !within.is_empty() {
            area.push(255);
            area.extend(u32::try_from(within.len() + 1).unwrap().to_be_bytes());
            area.push(32);
            area.extend(within);
        }
        let mut body = vec![4, 0, 1, 8];
        body.extend(u16::try_from(area.len()).unwrap().to_be_bytes());
        body.extend(area);
        body.extend([0, 0, 1, 2]);
        body
    }

    fn packet(body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0xC2, 255];
        packet.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        packet.extend(body);
        packet
    }

    #[test]
    fn signatures_within_signatures_are_bounded() {
        let plain = around(&[]);
        let once = around(&plain);
        let twice = around(&once);
        assert_eq!(kinds(&packet(&plain), 0), Ok(vec![SIGNATURE]));
        assert_eq!(kinds(&packet(&once), 0), Err(Unread::Nested));
        assert_eq!(kinds(&packet(&once), 1), Ok(vec![SIGNATURE]));
        assert_eq!(kinds(&packet(&twice), 1), Err(Unread::Nested));
        let deep = (0..4_000).fold(plain, |within, _| around(&within));
        assert_eq!(kinds(&packet(&deep), 1), Err(Unread::Nested));
    }

    #[test]
    fn what_breaks_off_or_is_private_is_refused() {
        let whole = packet(&around(&[]));
        for length in 1..whole.len() {
            assert_eq!(kinds(&whole[..length], 1), Err(Unread::Broken), "{length}");
        }
        assert_eq!(kinds(&[0xC5, 0], 1), Err(Unread::Private));
        assert_eq!(kinds(&[0x9C, 0], 1), Err(Unread::Private));
        // Partial and indeterminate lengths.
        assert_eq!(kinds(&[0xC2, 0xE0, 0], 1), Err(Unread::Broken));
        assert_eq!(kinds(&[0x8B, 0], 1), Err(Unread::Broken));
    }
}
