//! Message texts of rollout-operator.

use regex_syntax::ast::{ErrorKind, parse::Parser};

/// Numbers of pods that are not ready or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Disturbed {
    /// Pods that exist and are not ready.
    pub(super) not_ready: u32,
    /// Pods that should exist and do not.
    pub(super) unknown: u32,
}

impl Disturbed {
    pub(super) fn sum(self) -> u32 {
        self.not_ready.saturating_add(self.unknown)
    }

    /// `1 pod not ready, 2 pods unknown in ingester-zone-a`.
    pub(super) fn text(self, of: &str) -> String {
        let part = |count: u32, what: &str| {
            let pods = if count == 1 { "pod" } else { "pods" };
            (count > 0).then(|| format!("{count} {pods} {what}"))
        };
        let parts = [part(self.not_ready, "not ready"), part(self.unknown, "unknown")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("{} in {of}", parts.join(", "))
    }
}

/// Why an expression does not compile, in the wording of Go's `regexp`, which users of rollout-operator know.
pub(super) fn of_regex(regex: &str) -> Option<String> {
    let error = Parser::new().parse(regex).err()?;
    let at = error.span().start.offset;
    let from = regex.get(at..).unwrap_or_default();
    let part = regex.get(at..error.span().end.offset).unwrap_or_default();
    let (what, part) = match error.kind() {
        ErrorKind::ClassUnclosed => ("missing closing ]", from),
        ErrorKind::GroupUnclosed => ("missing closing )", regex),
        ErrorKind::GroupUnopened => ("unexpected )", regex),
        ErrorKind::ClassRangeInvalid => ("invalid character class range", part),
        ErrorKind::RepetitionMissing => ("missing argument to repetition operator", part),
        ErrorKind::RepetitionCountInvalid => ("invalid repeat count", part),
        ErrorKind::EscapeUnexpectedEof => ("trailing backslash at end of expression", ""),
        ErrorKind::EscapeUnrecognized | ErrorKind::UnsupportedBackreference => {
            ("invalid escape sequence", part)
        }
        ErrorKind::UnsupportedLookAround => ("invalid or unsupported Perl syntax", part),
        _ => return None,
    };
    Some(format!("error parsing regexp: {what}: `{part}`"))
}
