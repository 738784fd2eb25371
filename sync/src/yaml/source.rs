//! Looks up the source text at a position: for what the parser's events do not include.

use std::cell::OnceCell;

use yaml_rust2::scanner::Marker;

use super::Position;
use super::lenient::Lenient;

/// A text, split into lines on demand.
pub(super) struct Source<'a> {
    text: &'a Lenient<'a>,
    has_tabs: bool,
    lines: OnceCell<Vec<&'a str>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a Lenient<'a>) -> Self {
        Self {
            text,
            has_tabs: text.text().contains('\t'),
            lines: OnceCell::new(),
        }
    }

    /// The position in the file; the parser counts columns from 0.
    pub(super) fn position(&self, marker: &Marker) -> Position {
        self.text.position(marker)
    }

    /// Whether there is a tab, and only white space, between the start of the line and this position.
    pub(super) fn is_indented_by_tab(&self, marker: &Marker) -> bool {
        if !self.has_tabs {
            return false;
        }
        let before = || self.line(marker).chars().take(marker.col());
        before().any(|c| c == '\t') && before().all(|c| matches!(c, ' ' | '\t' | '-' | '?'))
    }

    /// Whether there is a `[` or `{` at this position.
    pub(super) fn opens_flow(&self, marker: &Marker) -> bool {
        self.line(marker)
            .chars()
            .nth(marker.col())
            .is_some_and(|c| matches!(c, '[' | '{'))
    }

    /// What follows the `|` or `>` of a block scalar: its indentation and chomping. The parser reports the position of
    /// its first line of content, or a later one; the header is above.
    pub(super) fn block_header(&self, marker: &Marker) -> &'a str {
        let above = self.lines().iter().take(marker.line());
        above.rev().find_map(|line| header(line)).unwrap_or_default()
    }

    fn line(&self, marker: &Marker) -> &'a str {
        let index = marker.line().saturating_sub(1);
        self.lines().get(index).copied().unwrap_or_default()
    }

    /// Lines end as in the parser: at LF, CR, or CRLF.
    fn lines(&self) -> &[&'a str] {
        self.lines.get_or_init(|| {
            let ends = |line: &'a str| line.strip_suffix('\r').unwrap_or(line).split('\r');
            self.text.text().split('\n').flat_map(ends).collect()
        })
    }
}

/// Indentation and chomping, if the line ends with the header of a block scalar.
fn header(line: &str) -> Option<&str> {
    line.match_indices(['|', '>']).find_map(|(index, _)| {
        let start = index + 1;
        let rest = line[start..].trim_start_matches(|c: char| c == '+' || c == '-' || c.is_ascii_digit());
        let ends = rest.trim_start().is_empty() || rest.trim_start().starts_with('#');
        ends.then(|| &line[start..line.len() - rest.len()])
    })
}
