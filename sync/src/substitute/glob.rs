//! Patterns of `#` and `%`: `*` is any text, slashes included, `?` one character.

/// A pattern.
pub(super) struct Glob(Vec<char>);

impl Glob {
    /// None for classes and escapes, which Flux's substitution gets wrong in suffixes.
    pub(super) fn new(pattern: &str) -> Option<Self> {
        if pattern.contains(['[', '\\']) {
            None
        } else {
            Some(Self(pattern.chars().collect()))
        }
    }

    /// Whether the whole text fits: linear in pattern times text, by remembering the last star only.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut in_text) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while in_text < text.len() {
            match self.0.get(at) {
                Some('*') => {
                    star = Some((at + 1, in_text));
                    at += 1;
                }
                Some(c) if *c == '?' || *c == text[in_text] => {
                    at += 1;
                    in_text += 1;
                }
                _ => {
                    let Some((after, from)) = star else { return false };
                    star = Some((after, from + 1));
                    (at, in_text) = (after, from + 1);
                }
            }
        }
        self.0[at..].iter().all(|c| *c == '*')
    }
}

/// The places between the characters of a text, both ends included.
pub(super) fn boundaries(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices()
        .map(|(index, _)| index)
        .chain(std::iter::once(text.len()))
}
