//! What is printed: lines of text that are safe for a terminal, and tables as kubectl's: no frame, two blanks between columns.
//!
//! Invariant: what objects say cannot steer the terminal: control characters, and turns of the direction of writing, are shown as U+FFFD.

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
use muster_fleet::Tell;
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

/// Standard output cannot be written.
#[derive(Debug, Error)]
pub(crate) enum Unwritten {
    /// The reader went away, as after `head`: the rest would be for no one.
    #[error("standard output is closed")]
    ReaderGone,
    /// Such as a full disk: what is there would be taken for all.
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
    /// Where `is_quiet`, nothing is printed but complaints: the exit code says all.
    pub(crate) fn new(colour: ColorChoice, is_quiet: bool) -> Self {
        Self {
            colour,
            is_quiet,
            outlives_readers: false,
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// The same, for what goes on when its reader goes away: a process that is there for others too, or a change that was begun.
    pub(crate) fn outliving_readers(&self) -> Self {
        Self {
            outlives_readers: true,
            ..self.clone()
        }
    }

    /// Prints a line, shapes in colour.
    pub(crate) fn line(&self, text: &str) -> Result<(), Unwritten> {
        let written = self.write(format!("{}\n", painted(&safe(text))).as_bytes());
        if self.outlives_readers { Ok(()) } else { written }
    }

    /// Prints lines.
    pub(crate) fn lines<'a>(&self, lines: impl IntoIterator<Item = &'a String>) -> Result<(), Unwritten> {
        lines.into_iter().try_for_each(|text| self.line(text))
    }

    /// Prints a text as it is: what programs read.
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

    /// Prints a line to standard error; if that is closed, there is no one to read it.
    pub(crate) fn complaint(&self, text: &str) {
        let _ = writeln!(AutoStream::new(io::stderr(), self.colour), "{}", safe(text));
    }

    /// Whether standard output is a terminal, and no pipe.
    pub(crate) const fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether log lines on standard error are in colour: as --color says, and otherwise where a terminal shows them.
    pub(crate) fn has_coloured_log(&self) -> bool {
        let choice = match self.colour {
            ColorChoice::Auto => AutoStream::choice(&io::stderr()),
            choice => choice,
        };
        choice != ColorChoice::Never
    }

    /// How many characters fit on a line: the terminal's width, or `$COLUMNS`; in a pipe nothing is cut.
    pub(crate) fn width(&self) -> usize {
        let said = || std::env::var("COLUMNS").ok()?.parse().ok(); // what is no number says nothing
        let size = || terminal_size::terminal_size_of(io::stdout());
        let shown = self.is_terminal.then(size).flatten();
        let shown = shown.map(|(width, _)| usize::from(width.0));
        shown.or_else(said).unwrap_or(usize::MAX)
    }

    /// How a moment is given in a view that is shown again and again: ages tick on a terminal, and in a pipe no line changes but for what it
    /// says.
    pub(crate) const fn when(&self, now: Timestamp) -> When {
        if self.is_terminal {
            When::Ago(now)
        } else {
            When::OnClock
        }
    }

    /// Shows text again and again.
    pub(crate) fn live(&self) -> Live {
        Live {
            out: self.clone(),
            shown: Vec::new(),
            height: 0,
        }
    }
}

impl Tell for Out {
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

/// The text with its shapes in colour; a shape that is a sign of writing as well stays as it is.
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

/// How a moment is told.
#[derive(Clone, Copy)]
pub(crate) enum When {
    /// By its age, seen from this moment.
    Ago(Timestamp),
    /// By the clock: what is read later, or line by line, stays true.
    OnClock,
}

impl When {
    /// The moment in words.
    pub(crate) fn tell(self, moment: Timestamp) -> String {
        match self {
            Self::Ago(now) => Age(moment, now).to_string(),
            Self::OnClock => moment.strftime("%H:%M:%S UTC").to_string(),
        }
    }
}

/// Shows text again and again: in place on a terminal, and into a pipe only the blocks of lines that were not there before.
pub(crate) struct Live {
    out: Out,
    /// What was shown, whatever room was between its words: a column that got wider is no news.
    shown: Vec<String>,
    /// Lines on the terminal.
    height: usize,
}

impl Live {
    /// Shows the lines as they are now; each stands for itself.
    pub(crate) fn show(&mut self, lines: Vec<String>) -> Result<(), Unwritten> {
        let blocks: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        self.show_blocks(&blocks)
    }

    /// Shows blocks of lines as they are now; the lines of one belong together.
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
            // A terminal that cannot be written to is found by what is printed next.
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

    /// Up to the first line of before, and all below it cleared.
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

/// What fits a terminal of so many columns and rows: a line that would be broken is cut, and of more lines than there are rows the first
/// are shown, which are the most urgent ones.
fn fitting(lines: &[String], size: Option<(u16, u16)>) -> Vec<String> {
    let (columns, rows) = size.unwrap_or((80, 24));
    let columns = usize::from(columns);
    // The cursor stands below the last line.
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
