//! Corrects insignificant white space that kubectl's parser accepts and ours does not, and parses the text again.
//!
//! A line of a quoted scalar may start in any column, even left of its parent, and a tab may follow a colon.

use std::borrow::Cow;
use std::collections::BTreeMap;

use yaml_rust2::scanner::{Marker, ScanError};

use super::Position;
use super::text::Chunk;

/// The limit for parsing a file again, over all its documents: this many times its length, plus [`AT_LEAST`]. A
/// file with such white space in more places is refused.
const READ_AGAIN: usize = 32;
/// The constant for small files, in bytes; also how much longer than its document a text may become.
const AT_LEAST: usize = 64 * 1024;

/// The remaining bytes of a file's documents that may be parsed again.
pub(super) fn budget(file: &str) -> usize {
    file.len().saturating_mul(READ_AGAIN).saturating_add(AT_LEAST)
}

const BLANKS: [char; 2] = [' ', '\t'];
const BREAKS: [char; 2] = ['\n', '\r'];

/// A chunk with its white space corrected as far as the parser has got. Line numbers stay the same.
pub(super) struct Lenient<'a> {
    chunk: Chunk<'a>,
    text: Cow<'a, str>,
    /// Number of spaces that were inserted before a line, by line number.
    inserted: BTreeMap<usize, usize>,
    /// Number of spaces that may still be inserted before lines.
    room: usize,
}

impl<'a> Lenient<'a> {
    pub(super) fn new(chunk: Chunk<'a>) -> Self {
        Self {
            chunk,
            text: Cow::Borrowed(chunk.text),
            inserted: BTreeMap::new(),
            room: chunk.text.len().saturating_add(AT_LEAST),
        }
    }

    /// The text for the parser.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The position in the file; the parser counts columns from 0.
    pub(super) fn position(&self, marker: &Marker) -> Position {
        let inserted = self.inserted.get(&marker.line()).copied().unwrap_or_default();
        let column = marker.col().saturating_sub(inserted) + 1;
        self.chunk.position_at(marker.line(), column)
    }

    /// Corrects what the parser stopped at. False if it stopped at something else, or if `budget` does not suffice to
    /// parse the text again.
    pub(super) fn put_right(&mut self, error: &ScanError, budget: &mut usize) -> bool {
        let marker = error.marker();
        let Some((left, at)) = budget.checked_sub(self.text.len()).zip(self.offset(marker)) else {
            return false;
        };
        *budget = left;
        match error.info() {
            "invalid indentation in quoted scalar" => self.indent(at, marker),
            "':' must be followed by a valid YAML whitespace" => {
                let blanks = self.text[..at].trim_end_matches(BLANKS).len();
                // kubectl accepts no tab after the colon of a key that starts with `?`.
                let before = self.text[..blanks].trim_end_matches(':').trim_end_matches(BLANKS);
                !before.is_empty() && !before.ends_with(BREAKS) && self.replace_tabs(blanks, at)
            }
            "tab cannot be used as indentation" => {
                let behind = &self.text[at..];
                let blanks = behind.len() - behind.trim_start_matches(BLANKS).len();
                self.replace_tabs(at, at + blanks)
            }
            _ => false,
        }
    }

    /// Indents the lines of the quoted scalar whose opening quote is at `at`.
    fn indent(&mut self, at: usize, marker: &Marker) -> bool {
        let quoted = &self.text[at..at + quoted(&self.text[at..])];
        let (mut indented, mut line, mut rest) =
            (String::with_capacity(2 * quoted.len()), marker.line(), quoted);
        let (mut room, mut inserted) = (self.room, Vec::new());
        while let Some(next) = after_break(rest) {
            let (ended, behind) = rest.split_at(next);
            indented.push_str(ended);
            line += 1;
            let blanks = behind.len() - behind.trim_start_matches(BLANKS).len();
            let lacks = marker.col().saturating_sub(blanks);
            if lacks > 0 && !behind[blanks..].starts_with(BREAKS) && !is_indicator(behind) {
                let Some(left) = room.checked_sub(lacks) else {
                    return false;
                };
                room = left;
                indented.extend(std::iter::repeat_n(' ', lacks));
                inserted.push((line, lacks));
            }
            rest = behind;
        }
        indented.push_str(rest);
        let is_changed = !inserted.is_empty();
        self.text = Cow::Owned([&self.text[..at], &indented, &self.text[at + quoted.len()..]].concat());
        self.room = room;
        for (line, lacks) in inserted {
            *self.inserted.entry(line).or_default() += lacks;
        }
        is_changed
    }

    fn replace_tabs(&mut self, from: usize, to: usize) -> bool {
        let has_tabs = self.text[from..to].contains('\t');
        if has_tabs {
            let spaces = self.text[from..to].replace('\t', " ");
            self.text.to_mut().replace_range(from..to, &spaces);
        }
        has_tabs
    }

    /// The byte offset of a position in the text.
    fn offset(&self, marker: &Marker) -> Option<usize> {
        let mut start = 0;
        for _ in 1..marker.line() {
            start += after_break(&self.text[start..])?;
        }
        let mut chars = self.text[start..].char_indices();
        chars.nth(marker.col()).map(|(index, _)| start + index)
    }
}

/// Whether the line ends a document, even inside a quoted scalar.
fn is_indicator(line: &str) -> bool {
    let behind = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(BLANKS) || behind.starts_with(BREAKS))
}

/// Where the next line starts. Lines end as in the parser: at LF, CR, or CRLF.
fn after_break(text: &str) -> Option<usize> {
    let end = text.find(BREAKS)?;
    let both = text[end..].starts_with("\r\n");
    Some(end + if both { 2 } else { 1 })
}

/// The length of the quoted scalar at the start of the text.
fn quoted(text: &str) -> usize {
    let is_single = text.starts_with('\'');
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((index, c)) = chars.next() {
        match c {
            '\'' if is_single && chars.next_if(|(_, next)| *next == '\'').is_none() => return index + 1,
            '"' if !is_single => return index + 1,
            '\\' if !is_single => {
                chars.next();
            }
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use yaml_rust2::{Event, parser::Parser};

    use super::*;

    /// What the parser stops at.
    fn stop(text: &str) -> Option<ScanError> {
        let mut parser = Parser::new_from_str(text);
        loop {
            match parser.next_token() {
                Ok((Event::StreamEnd, _)) => return None,
                Ok(_) => {}
                Err(error) => return Some(error),
            }
        }
    }

    #[test]
    fn places_are_those_of_the_file() {
        let mut text = Lenient::new(Chunk::of_text("x:\n  y: [\"a\nb\", c]]\n"));
        let error = stop(text.text()).unwrap();
        assert!(text.put_right(&error, &mut 1_000));
        assert_eq!(text.text(), "x:\n  y: [\"a\n      b\", c]]\n");
        let error = stop(text.text()).unwrap();
        assert!(!text.put_right(&error, &mut 1_000), "{error}");
        assert_eq!(text.position(error.marker()), Position { line: 3, column: 7 });
    }

    #[test]
    fn a_document_is_read_again_as_long_as_its_budget_lasts() {
        let document = "x: \"a\nb\"\n".to_owned() + &"y: 'c\nd'\n".repeat(9);
        let mut text = Lenient::new(Chunk::of_text(&document));
        let again = 3;
        let mut budget = again * (document.len() + 20);
        let mut times = 0;
        while stop(text.text()).is_some_and(|error| text.put_right(&error, &mut budget)) {
            times += 1;
        }
        assert_eq!(times, again);
    }

    #[test]
    fn a_text_that_would_become_far_longer_is_left_as_it_is() {
        let document = format!("x: {}\"a\n{}\"\n", " ".repeat(50_000), "b\n".repeat(25_000));
        let mut text = Lenient::new(Chunk::of_text(&document));
        let error = stop(&document).unwrap();
        assert!(!text.put_right(&error, &mut budget(&document)));
        assert_eq!((text.text(), text.inserted.len()), (&*document, 0));
    }
}
