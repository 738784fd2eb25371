//! Checks of the characters, before the parser sees them.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Position, YamlError, YamlProblem};

/// The text without byte order mark, ending with a line feed.
pub(super) fn check<'a>(file: &Arc<str>, bytes: &'a [u8]) -> Result<Cow<'a, str>, YamlError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            return Err(YamlError::new(
                file,
                position(&valid, valid.len()),
                YamlProblem::NotUtf8,
            ));
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some((index, c)) = text.char_indices().find(|(_, c)| !is_printable(*c)) {
        let name = format!("U+{:04X}", u32::from(c));
        return Err(YamlError::new(
            file,
            position(text, index),
            YamlProblem::Control(name),
        ));
    }
    // A block scalar at the end of a file ends with a line feed, whether the file does or not.
    Ok(if text.is_empty() || text.ends_with('\n') {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{text}\n"))
    })
}

/// Refuses directives, and what stands between `...` and the next `---`.
///
/// A line is looked at only before the first content of a document, so that lines within scalars are never touched.
pub(super) fn check_outside(file: &Arc<str>, text: &str) -> Result<(), YamlError> {
    let mut outside = true;
    let mut ended = false;
    for (index, line) in text.lines().enumerate() {
        let at = Position {
            line: index + 1,
            column: 1,
        };
        let is_marker = |marker: &str| {
            line.strip_prefix(marker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']))
        };
        if is_marker("---") {
            (outside, ended) = (false, false);
        } else if is_marker("...") {
            (outside, ended) = (true, true);
        } else if outside && line.starts_with('%') {
            return Err(YamlError::new(file, at, YamlProblem::Directive));
        } else if outside && !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            if ended {
                return Err(YamlError::new(file, at, YamlProblem::TextAfterEnd));
            }
            outside = false;
        }
    }
    Ok(())
}

/// The place of a byte of a text.
pub(super) fn position(text: &str, index: usize) -> Position {
    let before = &text[..index];
    let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

/// YAML's printable characters without the line separators that YAML 1.1 knows and 1.2 does not.
fn is_printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}'
        | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}
