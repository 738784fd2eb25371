//! Patterns of `#` and `%`: `*` is any text, slashes included, `?` one character.

/// Characters of a pattern: matching takes its length times that of the value.
pub(super) const MAX_PATTERN: usize = 1000;

/// A pattern.
pub(super) struct Glob(Vec<char>);

impl Glob {
    pub(super) fn new(pattern: impl IntoIterator<Item = char>) -> Self {
        Self(pattern.into_iter().collect())
    }

    /// Characters of the shortest and of the longest beginning of a text that fits and is not empty.
    pub(super) fn beginnings(&self, text: impl Iterator<Item = char>) -> Option<(usize, usize)> {
        // The places in the pattern that what was read so far can have come to.
        let mut places = vec![false; self.0.len() + 1];
        places[0] = true;
        self.pass_stars(&mut places);
        let mut found = None;
        for (count, c) in (1..).zip(text) {
            let mut next = vec![false; places.len()];
            for (place, wanted) in self.0.iter().enumerate().filter(|(place, _)| places[*place]) {
                match wanted {
                    '*' => next[place] = true,
                    wanted if *wanted == '?' || *wanted == c => next[place + 1] = true,
                    _ => {}
                }
            }
            self.pass_stars(&mut next);
            places = next;
            if places.last() == Some(&true) {
                found = Some((found.map_or(count, |(shortest, _)| shortest), count));
            }
            if !places.contains(&true) {
                break;
            }
        }
        found
    }

    /// A star may be nothing.
    fn pass_stars(&self, places: &mut [bool]) {
        for (place, wanted) in self.0.iter().enumerate() {
            if *wanted == '*' && places[place] {
                places[place + 1] = true;
            }
        }
    }
}
