//! Tables as kubectl's: no frame, three blanks between columns.

use std::{
    fmt,
    io::{ErrorKind, IsTerminal as _, Write as _},
};

use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;

/// Blanks between two columns.
pub const GAP: usize = 3;

/// How many characters fit on a line: the terminal's width, or `$COLUMNS`; in a pipe nothing is cut.
pub fn width() -> usize {
    let said = || std::env::var("COLUMNS").ok()?.parse().ok(); // what is no number says nothing
    let shown = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    shown.or_else(said).unwrap_or(usize::MAX)
}

/// A text of at most `width` characters; `…` stands for what is cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A text on lines of at most `width` characters, broken between words; a longer word is cut.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(cut(word, width)),
        }
    }
    lines
}

/// How long ago something was, as kubectl writes it: `45s`, `12m`, `5h`, `3d`.
pub struct Age(pub Timestamp, pub Timestamp);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(since, now) = self;
        // Clocks of two machines differ a little: nothing is younger than now.
        let seconds = now.duration_since(*since).as_secs().max(0);
        let (number, unit) = match seconds {
            0..120 => (seconds, 's'),
            120..7_200 => (seconds / 60, 'm'),
            7_200..172_800 => (seconds / 3_600, 'h'),
            _ => (seconds / 86_400, 'd'),
        };
        f.pad(&format!("{number}{unit}"))
    }
}

/// A table of these columns.
pub fn table<'a>(columns: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns);
    table
}

/// The table's lines, without blanks at their ends.
pub fn lines(table: &Table) -> Vec<String> {
    table.lines().map(|line| line.trim().to_owned()).collect()
}

/// Prints lines.
pub fn print<'a>(lines: impl IntoIterator<Item = &'a String>) {
    for line in lines {
        anstream::println!("{line}");
    }
}

/// Prints a text as it is. A reader that has seen enough, as `head`, is no trouble.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output"),
    }
}

/// Shows text again and again: in place on a terminal, and into a pipe only the lines that were not there before.
#[derive(Default)]
pub struct Live {
    shown: Vec<String>,
}

impl Live {
    /// Shows the lines as they are now.
    pub fn show(&mut self, lines: Vec<String>) {
        if lines == self.shown {
            return;
        }
        if std::io::stdout().is_terminal() {
            if !self.shown.is_empty() {
                // Up to the first line of before, and clear from there on.
                anstream::print!("\x1b[{}A\x1b[J", self.shown.len());
            }
            print(&lines);
        } else {
            print(lines.iter().filter(|line| !self.shown.contains(line)));
        }
        self.shown = lines;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(later: i64, expect: &str) {
        let since = Timestamp::UNIX_EPOCH;
        let now = Timestamp::from_second(later).unwrap();
        assert_eq!(Age(since, now).to_string(), expect);
    }

    #[test]
    fn ages_are_as_kubectl_writes_them() {
        check(-5, "0s");
        check(119, "119s");
        check(120, "2m");
        check(7_200, "2h");
        check(172_800, "2d");
    }

    #[test]
    fn text_is_cut_and_broken_between_words() {
        assert_eq!(cut("four", 4), "four");
        assert_eq!(cut("longer", 4), "lon…");
        assert_eq!(wrapped("a bb ccc dddddd", 4), ["a bb", "ccc", "ddd…"]);
        assert!(wrapped("", 4).is_empty());
    }
}
