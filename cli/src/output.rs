//! Output: lines of text that are safe for a terminal, and tables as kubectl prints them: no frame, two spaces between
//! columns.
//!
//! Invariant: text from objects cannot control the terminal: control characters, and changes of the writing direction,
//! are printed as U+FFFD.

use std::{
    fmt::Write as _,
    io::{self, ErrorKind, IsTerminal as _, Write as _},
};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Color, Style};
use crossterm::{
    QueueableCommand as _, cursor,
    terminal::{self, ClearType},
};
use jiff::Timestamp;
use muster_dashboard::Shape;
use muster_fleet::Reporter;
pub(crate) use muster_fleet::text::{Age, GAP, counted, cut, lines, safe, table, wrapped};
use serde::Serialize;
use thiserror::Error;

/// Prints a line, as `println!` would; an error if it cannot be written.
macro_rules! say {
    ($out:expr, $($words:tt)*) => { $out.line(&format!($($words)*)) };
}

/// Prints a line to standard error, as `eprintln!` would.
macro_rules! complain {
    ($out:expr, $($words:tt)*) => { $out.complaint(&format!($($words)*)) };
}

/// Writing to standard output failed.
#[derive(Debug, Error)]
pub(crate) enum Unwritten {
    /// The reader closed the pipe, as `head` does: the rest has no reader.
    #[error("standard output is closed")]
    ReaderGone,
    /// Another error, such as a full disk: the output is incomplete.
    #[error("standard output: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            Self::ReaderGone
        } else {
            Self::Failed(error)
        }
    }
}

/// Standard output and standard error, and how this process writes to them.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    colour: ColorChoice,
    is_quiet: bool,
    outlives_readers: bool,
    is_terminal: bool,
}

impl Out {
    /// With `is_quiet`, only errors and warnings are printed: the exit code is the result.
    pub(crate) fn new(colour: ColorChoice, is_quiet: bool) -> Self {
        Self {
            colour,
            is_quiet,
            outlives_readers: false,
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// The same, for a command that goes on when its reader closes the pipe: a process with other clients, or a change
    /// that has begun.
    pub(crate) fn outliving_readers(&self) -> Self {
        Self {
            outlives_readers: true,
            ..self.clone()
        }
    }

    /// Prints a line, with symbols in color.
    pub(crate) fn line(&self, text: &str) -> Result<(), Unwritten> {
        let written = self.write(format!("{}\n", painted(&safe(text))).as_bytes());
        if self.outlives_readers { Ok(()) } else { written }
    }

    /// Prints lines.
    pub(crate) fn lines<'a>(&self, lines: impl IntoIterator<Item = &'a String>) -> Result<(), Unwritten> {
        lines.into_iter().try_for_each(|text| self.line(text))
    }

    /// Prints text unchanged, for programs.
    pub(crate) fn text(&self, text: &str) -> Result<(), Unwritten> {
        match self.write(text.as_bytes()) {
            Err(Unwritten::ReaderGone) if self.outlives_readers => Ok(()),
            written => written,
        }
    }

    /// Prints a value as JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.text(&(serde_json::to_string_pretty(value)? + "\n"))?)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Unwritten> {
        if self.is_quiet {
            return Ok(());
        }
        let mut stdout = AutoStream::new(io::stdout(), self.colour).lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    /// Prints a line to standard error; if that is closed, the line is dropped.
    pub(crate) fn complaint(&self, text: &str) {
        let _ = writeln!(AutoStream::new(io::stderr(), self.colour), "{}", safe(text));
    }

    /// Whether standard output is a terminal, not a pipe.
    pub(crate) const fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether log lines on standard error are in color: as --color says, else if it is a terminal that supports it.
    pub(crate) fn has_coloured_log(&self) -> bool {
        let choice = match self.colour {
            ColorChoice::Auto => AutoStream::choice(&io::stderr()),
            choice => choice,
        };
        choice != ColorChoice::Never
    }

    /// Number of characters that fit on a line: the terminal's width, or `$COLUMNS`; in a pipe nothing is cut.
    pub(crate) fn width(&self) -> usize {
        let columns = || std::env::var("COLUMNS").ok()?.parse().ok(); // what is no number says nothing
        let size = || terminal_size::terminal_size_of(io::stdout());
        let shown = self.is_terminal.then(size).flatten();
        let shown = shown.map(|(width, _)| usize::from(width.0));
        shown.or_else(columns).unwrap_or(usize::MAX)
    }

    /// How a live view prints times: as ages on a terminal; as clock times in a pipe, so that a line changes only with
    /// its content.
    pub(crate) const fn when(&self, now: Timestamp) -> When {
        if self.is_terminal {
            When::Ago(now)
        } else {
            When::OnClock
        }
    }

    /// Starts a live view.
    pub(crate) fn live(&self) -> Live {
        Live {
            out: self.clone(),
            shown: Vec::new(),
            height: 0,
        }
    }
}

impl Reporter for Out {
    fn line(&self, text: &str) -> anyhow::Result<()> {
        Ok(Self::line(self, text)?)
    }

    fn text(&self, text: &str) -> anyhow::Result<()> {
        Ok(Self::text(self, text)?)
    }

    fn warn(&self, text: &str) {
        self.complaint(text);
    }
}

/// The text with its symbols in color; a symbol that is also a punctuation mark stays as it is.
fn painted(text: &str) -> String {
    let mut painted = String::with_capacity(text.len());
    for character in text.chars() {
        match colour(character) {
            Some(colour) => {
                let style = Style::new().fg_color(Some(Color::Ansi(colour)));
                // Writing to a string cannot fail.
                let _ = write!(painted, "{style}{character}{style:#}");
            }
            None => painted.push(character),
        }
    }
    painted
}

fn colour(character: char) -> Option<AnsiColor> {
    let shape = Shape::ALL.into_iter().find(|shape| shape.glyph() == character)?;
    match shape {
        Shape::Ready => Some(AnsiColor::Green),
        Shape::Updating => Some(AnsiColor::Yellow),
        Shape::Failed => Some(AnsiColor::Red),
        Shape::Held => Some(AnsiColor::Magenta),
        Shape::WaitsForYou => Some(AnsiColor::Cyan),
        Shape::Waiting | Shape::Unreachable | Shape::Unknown | Shape::NotSelected => None,
    }
}

/// How a time is printed.
#[derive(Clone, Copy)]
pub(crate) enum When {
    /// As an age, relative to this time.
    Ago(Timestamp),
    /// As a clock time: it stays true when it is read later, or line by line.
    OnClock,
}

impl When {
    /// Formats the time.
    pub(crate) fn format(self, moment: Timestamp) -> String {
        match self {
            Self::Ago(now) => Age(moment, now).to_string(),
            Self::OnClock => moment.strftime("%H:%M:%S UTC").to_string(),
        }
    }
}

/// A live view: redrawn in place on a terminal; into a pipe only new blocks of lines are printed.
pub(crate) struct Live {
    out: Out,
    /// The last content, with whitespace normalized: a column that got wider is not a change.
    shown: Vec<String>,
    /// Number of lines on the terminal.
    height: usize,
}

impl Live {
    /// Shows the current lines; each line is a block.
    pub(crate) fn show(&mut self, lines: Vec<String>) -> Result<(), Unwritten> {
        let blocks: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        self.show_blocks(&blocks)
    }

    /// Shows the current blocks; the lines of a block belong together.
    pub(crate) fn show_blocks(&mut self, blocks: &[Vec<String>]) -> Result<(), Unwritten> {
        let words = |block: &Vec<String>| {
            let words: Vec<&str> = block.iter().flat_map(|line| line.split_whitespace()).collect();
            words.join(" ")
        };
        let now: Vec<String> = blocks.iter().map(words).collect();
        if now == self.shown || self.out.is_quiet {
            return Ok(());
        }
        if self.out.is_terminal() {
            let fitting = fitting(&blocks.concat(), terminal::size().ok());
            // If the terminal cannot be written to, the next print fails.
            let _ = self.back();
            self.out.lines(&fitting)?;
            self.height = fitting.len();
        } else {
            for (block, words) in blocks.iter().zip(&now) {
                if !self.shown.contains(words) {
                    self.out.lines(block)?;
                }
            }
        }
        self.shown = now;
        Ok(())
    }

    /// Moves the cursor to the first line of the last content and clears from there.
    fn back(&self) -> io::Result<()> {
        let Ok(height @ 1..) = u16::try_from(self.height) else {
            return Ok(());
        };
        io::stdout()
            .queue(cursor::MoveToPreviousLine(height))?
            .queue(terminal::Clear(ClearType::FromCursorDown))?
            .flush()
    }
}

/// The lines that fit a terminal of this size: long lines are cut, and of too many lines the first, most urgent ones
/// are shown.
fn fitting(lines: &[String], size: Option<(u16, u16)>) -> Vec<String> {
    let (columns, rows) = size.unwrap_or((80, 24));
    let columns = usize::from(columns);
    // The cursor is below the last line.
    let room = usize::from(rows).saturating_sub(1).max(1);
    let mut fitting: Vec<String> = lines.iter().take(room).map(|line| cut(line, columns)).collect();
    if let (true, Some(last)) = (lines.len() > room, fitting.last_mut()) {
        *last = cut(&format!("… {} more lines", lines.len() - room + 1), columns);
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_object_says_cannot_steer_a_terminal() {
        assert_eq!(
            safe("a\x1b[2Jb\r\u{202e}c\u{9b}"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\u{fffd}"
        );
        assert_eq!(safe("two\nlines ✗"), "two\nlines ✗");
    }

    #[test]
    fn shapes_have_colours_beside_their_form() {
        assert_eq!(painted("✗ eu-1?"), "\u{1b}[31m✗\u{1b}[0m eu-1?");
    }

    #[test]
    fn a_live_view_fits_its_terminal() {
        let lines: Vec<String> = ["one", "two", "three three"].map(str::to_owned).into();
        assert_eq!(fitting(&lines, Some((6, 24))), ["one", "two", "three…"]);
        assert_eq!(fitting(&lines, Some((20, 3))), ["one", "… 2 more lines"]);
        assert_eq!(fitting(&lines, None), lines);
    }
}
