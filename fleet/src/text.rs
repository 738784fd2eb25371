//! Formats text: counts, ages, lines that fit a width, and tables as kubectl prints them: no frame, two spaces between
//! columns.

use std::fmt;

use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;
pub use muster_api::text::safe;
use muster_kit::age;

/// A count with the singular or plural noun.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    let words = if count == 1 { one } else { many };
    format!("{count} {words}")
}

/// Indentation of a table.
pub const GAP: usize = 3;

/// The text cut to at most `width` characters; `…` marks the cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The text as lines of at most `width` characters, broken between words; a longer word is broken at the end of the
/// line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => {
                let letters: Vec<char> = word.chars().collect();
                lines.extend(letters.chunks(width.max(1)).map(String::from_iter));
            }
        }
    }
    lines
}

/// How long ago something was, as kubectl writes it: `45s`, `5m30s`, `12m`, `3h20m`, `3d`.
pub struct Age(pub Timestamp, pub Timestamp);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(since, now) = self;
        f.pad(&age::human(now.duration_since(*since).as_secs()))
    }
}

/// A table with these columns.
pub fn table<'a>(columns: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns);
    table
}

/// The table's lines, without left margin and trailing spaces.
pub fn lines(table: &Table) -> Vec<String> {
    let inner = |line: &str| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned();
    table.lines().map(|line| inner(&line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one() {
        let files = |count: usize| counted(count, "file", "files");
        assert_eq!([files(0), files(1), files(2)], ["0 files", "1 file", "2 files"]);
    }

    #[test]
    fn text_is_cut_and_broken_between_words() {
        assert_eq!(cut("four", 4), "four");
        assert_eq!(cut("longer", 4), "lon…");
        assert_eq!(wrapped("a bb ccc dddddd", 4), ["a bb", "ccc", "dddd", "dd"]);
        assert!(wrapped("", 4).is_empty());
    }
}
