//! Prepares the text for the parser: checks characters, and splits documents.

use std::borrow::Cow;
use std::sync::Arc;

use super::{BOM, Position, YamlError, YamlProblem};

/// The text of one document, without the `---` before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    /// Where it starts in the file.
    pub start: Position,
    /// The text of the document.
    pub text: &'a str,
}

impl<'a> Chunk<'a> {
    pub(super) fn of_text(text: &'a str) -> Self {
        let start = Position { line: 1, column: 1 };
        Self { start, text }
    }

    /// Converts a position in the chunk to a position in the file.
    pub(super) fn position_at(&self, line: usize, column: usize) -> Position {
        if line <= 1 {
            let column = self.start.column + column - 1;
            return Position {
                line: self.start.line,
                column,
            };
        }
        Position {
            line: self.start.line + line - 1,
            column,
        }
    }
}

/// The text without byte order mark, ending with a newline.
pub(super) fn check<'a>(file: &Arc<str>, bytes: &'a [u8]) -> Result<Cow<'a, str>, YamlError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") => {
            return Err(YamlError::new(file, position("", 0), YamlProblem::Utf16));
        }
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            return Err(YamlError::new(
                file,
                position(&valid, valid.len()),
                YamlProblem::NotUtf8,
            ));
        }
    };
    let text = text.strip_prefix(BOM).unwrap_or(text);
    if let Some((index, c)) = unprintable(text) {
        let name = format!("U+{:04X}", u32::from(c));
        return Err(YamlError::new(
            file,
            position(text, index),
            YamlProblem::Control(name),
        ));
    }
    // A block scalar at the end of a file ends with a newline, whether the file does or not.
    Ok(if text.is_empty() || text.ends_with('\n') {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{text}\n"))
    })
}

/// The documents of a chunk: split at lines that start with `---`, wherever they are, as kubectl splits a file.
pub(super) fn split_documents<'a>(file: &Arc<str>, whole: Chunk<'a>) -> Result<Vec<Chunk<'a>>, YamlError> {
    let mut chunks = Vec::new();
    let (mut rest, mut line) = (whole.text, 1);
    loop {
        let separator = separator(rest);
        let (text, behind) = rest.split_at(separator.unwrap_or(rest.len()));
        let chunk = without_mark(Chunk {
            start: whole.position_at(line, 1),
            text,
        });
        check_outside(file, &chunk)?;
        chunks.push(chunk);
        if separator.is_none() {
            return Ok(chunks);
        }
        line += text.matches('\n').count();
        let behind = behind.strip_prefix(BOM).unwrap_or(behind);
        let (separator, behind) = behind.split_once('\n').unwrap_or((behind, ""));
        if !matches!(separator[3..].trim_start().chars().next(), None | Some('#')) {
            return Err(YamlError::new(
                file,
                whole.position_at(line, 1),
                YamlProblem::Separator,
            ));
        }
        (rest, line) = (behind, line + 1);
    }
}

/// Where the next line starts that begins with `---`, optionally after a byte order mark.
fn separator(text: &str) -> Option<usize> {
    text.match_indices("---").find_map(|(index, _)| {
        let before = &text[..index];
        let start = before.strip_suffix(BOM).unwrap_or(before);
        (start.is_empty() || start.ends_with('\n')).then_some(start.len())
    })
}

/// The chunk after the byte order mark of its document, if it has one: concatenated files have one in the middle, and
/// YAML allows it before each document. Only comments may precede it.
fn without_mark(chunk: Chunk<'_>) -> Chunk<'_> {
    let (mut found, mut offset) = (chunk, 0);
    for (line, content) in (1..).zip(chunk.text.split_inclusive('\n')) {
        let text = content.strip_prefix(BOM);
        if text.is_some() {
            found = Chunk {
                start: chunk.position_at(line, 1),
                text: &chunk.text[offset + BOM.len()..],
            };
        }
        let text = text.unwrap_or(content).trim_start();
        if !text.is_empty() && !text.starts_with('#') {
            break;
        }
        offset += content.len();
    }
    found
}

/// Refuses directives, and text after `...`.
fn check_outside(file: &Arc<str>, chunk: &Chunk<'_>) -> Result<(), YamlError> {
    let has_end = chunk.text.starts_with("...") || chunk.text.contains("\n...");
    let (mut before, mut ended) = (true, false);
    for (line, content) in (1..).zip(chunk.text.lines()) {
        let is_end = content
            .strip_prefix("...")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']));
        let is_text = !content.trim().is_empty() && !content.trim_start().starts_with('#');
        let error = |problem| Err(YamlError::new(file, chunk.position_at(line, 1), problem));
        if is_end {
            ended = true;
        } else if (before || ended) && content.starts_with('%') {
            return error(YamlProblem::Directive);
        } else if ended && is_text {
            return error(YamlProblem::TextAfterEnd);
        }
        before &= !is_text;
        if !before && !has_end {
            break;
        }
    }
    Ok(())
}

/// The position of a byte offset.
fn position(text: &str, index: usize) -> Position {
    let before = &text[..index];
    let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

/// The first character that is not printable. Most bytes of most files are plain ASCII.
fn unprintable(text: &str) -> Option<(usize, char)> {
    let is_suspect = |byte: u8| !matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    let first = text.bytes().position(is_suspect)?;
    let mut suspects = text[first..].char_indices();
    suspects
        .find(|(_, c)| !is_printable(*c))
        .map(|(index, c)| (first + index, c))
}

/// YAML's printable characters, except the line separators of YAML 1.1 that YAML 1.2 does not have.
fn is_printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..='\u{10ffff}')
}
