//! Tables as kubectl's: no frame, three blanks between columns.

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};

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
