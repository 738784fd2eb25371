//! Text that comes from objects and files, before a terminal shows it.

use std::borrow::Cow;

/// The text without what a terminal would obey: control characters but line feeds and tabs, and what turns the direction of writing around.
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
