//! Small elements shared by all pages: untrusted text, times, shapes, commands to copy.

use std::fmt::Write as _;

use jiff::Timestamp;
use maud::{Escaper, Markup, Render, html};

use crate::{PageLocation, Shape, page::Request};

/// Maximum characters of a text shown; a message of an object may have a megabyte.
const MAX_TEXT: usize = 2_000;
/// Replacement for invisible characters.
const UNSEEN: char = '\u{fffd}';

/// Untrusted text made safe for display: limited in length, without control characters.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(&'a str);

/// Makes untrusted text safe for display.
pub fn text(text: &str) -> Text<'_> {
    Text(text)
}

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        let mut out = Escaper::new(buffer);
        let mut rest = self.0.chars();
        for char in rest.by_ref().take(MAX_TEXT) {
            // Writing to a string cannot fail.
            let _ = out.write_char(if is_invisible(char) { UNSEEN } else { char });
        }
        if let Some(left) = std::num::NonZeroUsize::new(rest.count()) {
            let _ = write!(out, "… ({left} characters more)"); // as above
        }
    }
}

/// Whether a character is invisible or affects the text around it, such as bidirectional overrides.
fn is_invisible(char: char) -> bool {
    let is_blank = matches!(char, '\n' | '\t');
    let turns = matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    (char.is_control() && !is_blank) || turns
}

/// A time as text that works without a script; the script replaces it with the age.
pub fn time(at: Timestamp) -> Markup {
    html! {
        time datetime=(at.strftime("%Y-%m-%dT%H:%M:%SZ")) { (at.strftime("%Y-%m-%d %H:%M:%S UTC")) }
    }
}

/// ` since …`, if the time is known.
pub fn since(at: Option<Timestamp>) -> Markup {
    html! { @if let Some(at) = at { " " span.since { "since " (time(at)) } } }
}

/// CSS class of a shape.
pub const fn class(shape: Shape) -> &'static str {
    match shape {
        Shape::Ready => "ready",
        Shape::Updating => "updating",
        Shape::Waiting => "waiting",
        Shape::WaitsForYou => "needed",
        Shape::Failed => "failed",
        Shape::Held => "held",
        Shape::Unreachable => "unreachable",
        Shape::Unknown => "unknown",
        Shape::NotSelected => "unselected",
    }
}

/// Glyph of a shape; a screen reader reads its word. The glyph of held ones is drawn with CSS: few fonts have it, and
/// some show it as an emoji.
pub fn glyph(shape: Shape) -> Markup {
    html! {
        span.glyph aria-hidden="true" {
            @if shape == Shape::Held {
                svg viewBox="0 0 10 10" { rect x="1" y="0" width="3" height="10" {} rect x="6" y="0" width="3" height="10" {} }
            } @else { (shape.glyph()) }
        }
    }
}

/// A shape and a word.
pub fn badge(shape: Shape, word: &str) -> Markup {
    html! { span.badge.(class(shape)) { (glyph(shape)) " " (text(word)) } }
}

/// A shape with its word for screen readers.
pub fn shape(shape: Shape) -> Markup {
    html! { span.badge.(class(shape)) title=(shape.word()) { (glyph(shape)) span.unseen { (shape.word()) } } }
}

/// A message, truncated to a few lines by the style sheet where space is tight.
pub fn message(words: &str) -> Markup {
    html! { @if !words.is_empty() { p.message { (text(words)) } } }
}

/// A link to another page.
pub fn link(request: &Request, to: &PageLocation, words: &str) -> Markup {
    html! { a href=(request.place.link(to)) { (text(words)) } }
}

/// A command to copy. The button is hidden without a script.
pub fn command(words: &str) -> Markup {
    html! {
        span.command { code { (text(words)) } button.copy type="button" hidden { "Copy" } }
    }
}

/// Commands to copy, each with its purpose.
pub fn commands<'a>(commands: impl IntoIterator<Item = (&'a str, String)>) -> Markup {
    html! {
        dl.commands {
            @for (what, words) in commands { dt { (what) } dd { (command(&words)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expect: &str) {
        assert_eq!(text(given).render().0, expect);
    }

    #[test]
    fn texts_of_strangers_are_inert() {
        check("<script>\"&", "&lt;script&gt;&quot;&amp;");
        check(
            "a\u{0}b\u{1b}[31m\u{202e}c\r\u{7f}",
            "a\u{fffd}b\u{fffd}[31m\u{fffd}c\u{fffd}\u{fffd}",
        );
        check("two\nlines", "two\nlines");
        let long = text(&"ä".repeat(1 << 20)).render().0;
        assert!(
            long.ends_with("… (1046576 characters more)"),
            "{}",
            &long[long.len() - 60..]
        );
        assert!(long.len() < 3 * MAX_TEXT);
    }
}
