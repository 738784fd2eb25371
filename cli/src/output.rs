//! What is printed: lines of text that are safe for a terminal, and tables as kubectl's: no frame, two blanks between columns.
//!
//! Invariant: what objects say cannot steer the terminal: control characters, and turns of the direction of writing, are shown as U+FFFD.

use std::{
    fmt::Write as _,
    io::{self, ErrorKind, IsTerminal as _, Write as _},
    process,
    sync::atomic::{AtomicBool, Ordering},
};

use anstyle::{AnsiColor, Color, Style};
use anyhow::Context as _;
use crossterm::{
    QueueableCommand as _, cursor,
    terminal::{self, ClearType},
};
use jiff::Timestamp;
use muster_dashboard::Shape;
use muster_fleet::Tell;
pub(crate) use muster_fleet::text::{Age, GAP, counted, cut, lines, safe, table, wrapped};

/// The exit code of a command whose reader went away, as a shell gives it for SIGPIPE (128 and 13): what was to be told or followed is not
/// at its end, and 0 would say so.
const UNHEARD: i32 = 141;

/// The exit code of a command whose output cannot be written.
const UNWRITTEN: i32 = 2;

/// Prints a line, as `println!` would.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::line(&format!($($words)*)) };
}

/// Prints a line to standard error, as `eprintln!` would.
macro_rules! complain {
    ($($words:tt)*) => { $crate::output::complaint(&format!($($words)*)) };
}

/// Whether standard output stays empty.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on nothing is printed but complaints: the exit code says all.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether the process goes on when nobody reads any more.
static SERVES: AtomicBool = AtomicBool::new(false);

/// From now on a reader that goes away ends nothing: the process is there for others, too.
pub(crate) fn outlive_readers() {
    SERVES.store(true, Ordering::Relaxed);
}

/// Where nobody reads any more, as after `head`, the process ends: the rest would be for nobody. Unless it outlives its readers.
fn heard(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            if !SERVES.load(Ordering::Relaxed) {
                process::exit(UNHEARD);
            }
            Ok(())
        }
        written => written,
    }
}

/// Prints a line, shapes in colour.
pub(crate) fn line(text: &str) {
    if QUIET.load(Ordering::Relaxed) {
        return;
    }
    let mut out = anstream::stdout().lock();
    let written = writeln!(out, "{}", painted(&safe(text))).and_then(|()| out.flush());
    if let Err(error) = heard(written)
        && !SERVES.load(Ordering::Relaxed)
    {
        // Such as a full disk: who reads what there is takes it for all.
        complaint(&format!("error: standard output: {error}"));
        process::exit(UNWRITTEN);
    }
}

/// Prints a line to standard error; if that is closed, there is nobody to tell.
pub(crate) fn complaint(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", safe(text));
}

/// Standard output and standard error, for libraries that tell how far they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal;

impl Tell for Terminal {
    fn line(&self, text: &str) {
        line(text);
    }

    fn text(&self, words: &str) -> anyhow::Result<()> {
        text(words)
    }

    fn warn(&self, text: &str) {
        complaint(text);
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

/// Whether somebody looks at a terminal, and no pipe.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// How many characters fit on a line: the terminal's width, or `$COLUMNS`; in a pipe nothing is cut.
pub(crate) fn width() -> usize {
    let said = || std::env::var("COLUMNS").ok()?.parse().ok(); // what is no number says nothing
    let shown = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    shown.or_else(said).unwrap_or(usize::MAX)
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
    /// For a view that is shown again and again: ages tick on a terminal, and in a pipe no line changes but for what it says.
    pub(crate) fn live(now: Timestamp) -> Self {
        if is_terminal() {
            Self::Ago(now)
        } else {
            Self::OnClock
        }
    }

    /// The moment in words.
    pub(crate) fn tell(self, moment: Timestamp) -> String {
        match self {
            Self::Ago(now) => Age(moment, now).to_string(),
            Self::OnClock => moment.strftime("%H:%M:%S UTC").to_string(),
        }
    }
}

/// Prints lines.
pub(crate) fn print<'a>(lines: impl IntoIterator<Item = &'a String>) {
    lines.into_iter().for_each(|text| line(text));
}

/// Prints a text as it is: what programs read.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    if QUIET.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    heard(written).context("standard output")
}

/// Shows text again and again: in place on a terminal, and into a pipe only the blocks of lines that were not there before.
#[derive(Default)]
pub(crate) struct Live {
    /// What was shown, whatever room was between its words: a column that got wider is no news.
    shown: Vec<String>,
    /// Lines on the terminal.
    height: usize,
}

impl Live {
    /// Shows the lines as they are now; each stands for itself.
    pub(crate) fn show(&mut self, lines: Vec<String>) {
        let blocks: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        self.show_blocks(&blocks);
    }

    /// Shows blocks of lines as they are now; the lines of one belong together.
    pub(crate) fn show_blocks(&mut self, blocks: &[Vec<String>]) {
        let words = |block: &Vec<String>| {
            let words: Vec<&str> = block.iter().flat_map(|line| line.split_whitespace()).collect();
            words.join(" ")
        };
        let now: Vec<String> = blocks.iter().map(words).collect();
        if now == self.shown || QUIET.load(Ordering::Relaxed) {
            return;
        }
        if is_terminal() {
            let fitting = fitting(&blocks.concat(), terminal::size().ok());
            // A terminal that cannot be written to is found by what is printed next.
            let _ = self.back();
            print(&fitting);
            self.height = fitting.len();
        } else {
            let fresh = blocks
                .iter()
                .zip(&now)
                .filter(|(_, words)| !self.shown.contains(words));
            fresh.for_each(|(block, _)| print(block));
        }
        self.shown = now;
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
