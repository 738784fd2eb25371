//! Sanitizes text from objects and files before it is printed to a terminal.

use std::borrow::Cow;

/// The text without characters that affect a terminal: control characters other than line feeds and tabs, and
/// characters that change the writing direction.
pub fn safe(text: &str) -> Cow<'_, str> {
    let steers = |character: char| {
        (character.is_control() && character != '\n' && character != '\t')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(steers) {
        Cow::Owned(text.replace(steers, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}
