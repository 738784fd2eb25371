//! Parses signed objects: splits a tag or a commit in git's format into its headers, its signed bytes and its
//! signature.
//!
//! Invariant: headers are read only from the signed bytes.

use std::ops::Range;

use super::super::Unverified;

/// Maximum length of an armored signature. That of the largest RSA key has a tenth of it.
const MAX_SIGNATURE: usize = 16 << 10;

/// The first lines of signatures, as git recognizes them. X.509 is recognized in order to name it in the refusal.
const BEGINNINGS: [(&str, Form); 4] = [
    ("-----BEGIN PGP SIGNATURE-----", Form::OpenPgp),
    ("-----BEGIN PGP MESSAGE-----", Form::OpenPgp),
    ("-----BEGIN SSH SIGNATURE-----", Form::Ssh),
    ("-----BEGIN SIGNED MESSAGE-----", Form::X509),
];

/// The types of signatures that git creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    OpenPgp,
    Ssh,
    X509,
}

/// A signed object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed<'a> {
    /// The signed bytes.
    pub payload: Vec<u8>,
    /// The armored signature.
    pub signature: String,
    pub form: Form,
    /// The claimed time of the signature, in seconds since 1970.
    pub at: i64,
    /// The content of a tag; `None` for a commit.
    pub tag: Option<TagHeaders<'a>>,
}

/// The fields of a tag object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TagHeaders<'a> {
    pub object: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
}

/// Parses a tag object.
pub(super) fn tag(bytes: &[u8]) -> Result<Signed<'_>, Unverified> {
    let start = signature_start(bytes).ok_or(Unverified::Unsigned)?;
    let (payload, signature) = bytes.split_at(start);
    let mut headers = Headers::of(payload)?;
    let object = headers.next("object")?;
    let kind = headers.next("type")?;
    let name = headers.next("tag")?;
    let tagger = headers.next("tagger")?;
    if headers.rest().next().is_some() {
        return Err(Unverified::Malformed(
            "a tag with headers that git does not write",
        ));
    }
    let (signature, form) = armored(signature)?;
    Ok(Signed {
        payload: payload.to_vec(),
        signature,
        form,
        at: moment(tagger)?,
        tag: Some(TagHeaders { object, kind, name }),
    })
}

/// Parses a commit object: its signature is in the header `gpgsig`, which is not signed itself.
pub(super) fn commit(bytes: &[u8]) -> Result<Signed<'static>, Unverified> {
    let (range, signature) = header_signature(bytes)?.ok_or(Unverified::Unsigned)?;
    let payload = [&bytes[..range.start], &bytes[range.end..]].concat();
    let mut headers = Headers::of(&payload)?;
    let committer = headers
        .rest()
        .find_map(|(name, value)| (name == "committer").then_some(value))
        .ok_or(Unverified::Malformed("a commit without a committer"))?;
    let at = moment(committer)?;
    let (signature, form) = armored(&signature)?;
    Ok(Signed {
        payload,
        signature,
        form,
        at,
        tag: None,
    })
}

/// The start of the signature at the end of a tag: as in git, the last line that starts one.
fn signature_start(bytes: &[u8]) -> Option<usize> {
    let mut start = None;
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if form(line).is_some() {
            start = Some(at);
        }
        at += line.len();
    }
    start
}

fn form(text: &[u8]) -> Option<Form> {
    let known = BEGINNINGS.iter();
    let mut known = known.filter(|(beginning, _)| text.starts_with(beginning.as_bytes()));
    known.next().map(|(_, form)| *form)
}

/// The range and the value of the header `gpgsig`.
type HeaderSignature = (Range<usize>, Vec<u8>);

/// The lines of the header `gpgsig` of a commit, and their value.
fn header_signature(bytes: &[u8]) -> Result<Option<HeaderSignature>, Unverified> {
    let mut found: Option<HeaderSignature> = None;
    let (mut at, mut within) = (0, false);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if line == b"\n" {
            break;
        }
        let end = at + line.len();
        if let Some(more) = line.strip_prefix(b" ") {
            if let Some((range, held)) = found.as_mut().filter(|_| within) {
                range.end = end;
                held.extend_from_slice(more);
            }
        } else if let Some(first) = line.strip_prefix(b"gpgsig ") {
            if found.is_some() {
                return Err(Unverified::Several);
            }
            within = true;
            found = Some((at..end, first.to_vec()));
        } else if line.starts_with(b"gpgsig") {
            return Err(Unverified::Malformed(
                "a commit with a signature of another kind of repository",
            ));
        } else {
            within = false;
        }
        at = end;
    }
    Ok(found)
}

/// Exactly one armored signature, with nothing after it.
fn armored(bytes: &[u8]) -> Result<(String, Form), Unverified> {
    if bytes.len() > MAX_SIGNATURE {
        return Err(Unverified::Broken("it is larger than any signature"));
    }
    let form = form(bytes).ok_or(Unverified::Broken("its first line is not one of a signature"))?;
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| text.is_ascii())
        .ok_or(Unverified::Broken("it is not armored in ASCII"))?;
    Ok((text.to_owned(), form))
}

/// The base64 of an armored block without its first and last line, headers and checksum.
pub(super) fn body(text: &str) -> Result<String, Unverified> {
    let mut lines = text.trim_end().lines().map(str::trim_end);
    let label = lines
        .next()
        .and_then(|line| line.strip_prefix("-----BEGIN "))
        .ok_or(Unverified::Broken("its first line is not one of a signature"))?;
    let end = format!("-----END {label}");
    let mut body = String::with_capacity(text.len());
    let mut ended = false;
    for line in lines {
        if ended {
            return Err(Unverified::Broken("text follows it"));
        }
        if line == end {
            ended = true;
        } else if line.contains(':') && body.is_empty() || line.starts_with('=') {
            // A header such as `Version: 1`, or the checksum, which adds no protection.
        } else {
            body.push_str(line.trim());
        }
    }
    if ended {
        Ok(body)
    } else {
        Err(Unverified::Broken("its last line is missing"))
    }
}

/// The headers of an object, in order.
struct Headers<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Headers<'a> {
    fn of(payload: &'a [u8]) -> Result<Self, Unverified> {
        let malformed = || Unverified::Malformed("an object whose headers cannot be read");
        let end = payload
            .windows(2)
            .position(|pair| pair == b"\n\n")
            .ok_or_else(malformed)?;
        let mut headers = Vec::new();
        for line in payload[..end].split(|byte| *byte == b'\n') {
            if line.starts_with(b" ") {
                continue;
            }
            // Names in old repositories are not always UTF-8; such a header is skipped.
            let Ok(line) = std::str::from_utf8(line) else {
                headers.push(("", ""));
                continue;
            };
            if line.contains(['\0', '\r']) {
                return Err(malformed());
            }
            headers.push(line.split_once(' ').ok_or_else(malformed)?);
        }
        headers.reverse();
        Ok(Self(headers))
    }

    /// The value of the next header, which must have this name.
    fn next(&mut self, name: &str) -> Result<&'a str, Unverified> {
        let next = self.0.pop().filter(|(found, _)| *found == name);
        next.map(|(_, value)| value)
            .ok_or(Unverified::Malformed("a tag without the headers that git writes"))
    }

    fn rest(&mut self) -> impl Iterator<Item = (&'a str, &'a str)> {
        std::mem::take(&mut self.0).into_iter().rev()
    }
}

/// The time in a `tagger` or `committer` header: `name <address> seconds zone`.
fn moment(who: &str) -> Result<i64, Unverified> {
    let seconds = who.rsplit(' ').nth(1).and_then(|seconds| seconds.parse().ok());
    seconds.ok_or(Unverified::Malformed("an object without its creation time"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on failure")]
mod tests {
    use super::*;

    const SIGNATURE: &str = "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n";
    const TAG: &str = "object c1\ntype commit\ntag v1\ntagger A <a@x> 1700000000 +0100\n\nwords\n";

    #[test]
    fn a_tag_is_signed_up_to_its_signature() {
        let bytes = format!("{TAG}{SIGNATURE}");
        let signed = tag(bytes.as_bytes()).unwrap();
        assert_eq!(signed.payload, TAG.as_bytes());
        assert_eq!((signed.signature.as_str(), signed.form), (SIGNATURE, Form::Ssh));
        assert_eq!(signed.at, 1_700_000_000);
        let headers = signed.tag.unwrap();
        assert_eq!(
            (headers.object, headers.kind, headers.name),
            ("c1", "commit", "v1")
        );
    }

    #[test]
    fn a_commit_is_signed_without_its_signature() {
        let plain = "tree t1\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 2 +0000\n\nwords\n";
        let header = format!("gpgsig {}", SIGNATURE.trim_end().replace('\n', "\n "));
        let bytes = plain.replace("\n\n", &format!("\n{header}\n\n"));
        let signed = commit(bytes.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(signed.payload).unwrap(), plain);
        assert_eq!((signed.signature.as_str(), signed.at), (SIGNATURE, 2));
    }

    #[test]
    fn what_git_does_not_write_is_refused() {
        let refused = |bytes: String| tag(bytes.as_bytes()).unwrap_err();
        let malformed = |bytes: String| matches!(refused(bytes), Unverified::Malformed(_));
        assert_eq!(refused(TAG.to_owned()), Unverified::Unsigned);
        assert!(malformed(format!("{}{SIGNATURE}", TAG.replace("tag v1\n", ""))));
        assert!(malformed(format!(
            "{}{SIGNATURE}",
            TAG.replace("tag v1\n", "tag v1\ntag v2\n")
        )));
        assert!(malformed(format!(
            "{}{SIGNATURE}",
            TAG.replace("tag v1\n", "tag v1\r\n")
        )));
        assert!(malformed(format!(
            "{}{SIGNATURE}",
            TAG.replace("\n\n", "\nextra 1\n\n")
        )));
        // The signature starts in the headers: what follows is not signed.
        assert!(malformed(format!(
            "object c1\ntype commit\n{SIGNATURE}tag v1\n\nwords"
        )));
        let twice = "tree t1\ngpgsig a\ngpgsig b\ncommitter A <a@x> 2 +0000\n\nwords\n";
        assert_eq!(commit(twice.as_bytes()).unwrap_err(), Unverified::Several);
        let text_after = body(&format!("{SIGNATURE}more\n")).unwrap_err();
        assert_eq!(text_after, Unverified::Broken("text follows it"));
        assert!(body(SIGNATURE.trim_end_matches("END SSH SIGNATURE-----\n")).is_err());
    }
}
