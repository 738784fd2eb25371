//! Patterns of `#` and `%`, as in Flux's envsubst: `*` matches any text including slashes, `?` one character, `[a-z]`
//! one of these, `[^a-z]` any other, and `\` escapes the next character.

/// Maximum number of characters of a pattern: matching takes its length times that of the value.
pub(super) const MAX_PATTERN: usize = 1000;

/// A compiled pattern.
pub(super) struct Glob(Vec<Part>);

enum Part {
    Star,
    Any,
    Char(char),
    Class { not: bool, ranges: Vec<(char, char)> },
}

impl Part {
    /// Whether this part matches a character; a star does not.
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => true,
            Self::Char(wanted) => *wanted == c,
            Self::Class { not, ranges } => {
                ranges.iter().any(|(low, high)| (low..=high).contains(&&c)) != *not
            }
        }
    }
}

impl Glob {
    /// `None` if a class or an escape is incomplete, or a class is empty.
    pub(super) fn new(pattern: impl IntoIterator<Item = char>) -> Option<Self> {
        let mut chars = pattern.into_iter().peekable();
        let mut parts = Vec::new();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' => Part::Star,
                '?' => Part::Any,
                '\\' => Part::Char(chars.next()?),
                '[' => Part::Class {
                    not: chars.next_if_eq(&'^').is_some(),
                    ranges: ranges(&mut chars)?,
                },
                c => Part::Char(c),
            });
        }
        Some(Self(parts))
    }

    /// Whether the pattern contains `?` or a class, which match one character of several.
    pub(super) fn counts_characters(&self) -> bool {
        let counts = |part: &Part| matches!(part, Part::Any | Part::Class { .. });
        self.0.iter().any(counts)
    }

    /// Length in characters of the shortest and of the longest non-empty prefix of a text that matches.
    pub(super) fn beginnings(&self, text: impl Iterator<Item = char>) -> Option<(usize, usize)> {
        // The positions in the pattern that are reachable after the text so far.
        let mut places = vec![false; self.0.len() + 1];
        places[0] = true;
        self.pass_stars(&mut places);
        let mut found = None;
        for (count, c) in (1..).zip(text) {
            let mut next = vec![false; places.len()];
            for (place, part) in self.0.iter().enumerate().filter(|(place, _)| places[*place]) {
                if matches!(part, Part::Star) {
                    next[place] = true;
                } else if part.fits(c) {
                    next[place + 1] = true;
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

    /// A star may match nothing.
    fn pass_stars(&self, places: &mut [bool]) {
        for (place, part) in self.0.iter().enumerate() {
            if matches!(part, Part::Star) && places[place] {
                places[place + 1] = true;
            }
        }
    }

    /// Length in bytes of the shortest and of the longest prefix that matches, where single bytes of a character are
    /// tried too, as Flux does. Takes quadratic time.
    pub(super) fn beginnings_in_bytes(&self, text: &str) -> Option<(usize, usize)> {
        let fits = |length: &usize| fits(&self.0, &text.as_bytes()[..*length]);
        let mut lengths = (1..=text.len()).filter(fits);
        let shortest = lengths.next()?;
        Some((shortest, lengths.next_back().unwrap_or(shortest)))
    }
}

/// The ranges of a class, up to its end.
fn ranges(chars: &mut std::iter::Peekable<impl Iterator<Item = char>>) -> Option<Vec<(char, char)>> {
    let mut ranges = Vec::new();
    while ranges.is_empty() || chars.next_if_eq(&']').is_none() {
        let low = member(chars)?;
        let high = match chars.next_if_eq(&'-') {
            Some(_) => member(chars)?,
            None => low,
        };
        ranges.push((low, high));
    }
    Some(ranges)
}

/// A member of a class: `-` and `]` must be escaped.
fn member(chars: &mut impl Iterator<Item = char>) -> Option<char> {
    match chars.next()? {
        '\\' => chars.next(),
        '-' | ']' => None,
        c => Some(c),
    }
}

/// Whether the parts match the whole text. The parts between two stars are matched at the first possible position.
fn fits(mut parts: &[Part], mut text: &[u8]) -> bool {
    let is_star = |part: &Part| matches!(part, Part::Star);
    while !parts.is_empty() {
        let after = parts
            .iter()
            .position(|part| !is_star(part))
            .unwrap_or(parts.len());
        let end = parts[after..]
            .iter()
            .position(is_star)
            .map_or(parts.len(), |end| after + end);
        let (chunk, rest) = (&parts[after..end], &parts[end..]);
        if chunk.is_empty() {
            return true;
        }
        let starts = if after > 0 { text.len() } else { 0 };
        let left = (0..=starts).find_map(|start| {
            without(chunk, &text[start..]).filter(|left| left.is_empty() || !rest.is_empty())
        });
        let Some(left) = left else {
            return false;
        };
        (parts, text) = (rest, left);
    }
    text.is_empty()
}

/// The rest of a text after a matching prefix.
fn without<'a>(chunk: &[Part], mut text: &'a [u8]) -> Option<&'a [u8]> {
    for part in chunk {
        text = if let Part::Char(c) = part {
            text.strip_prefix(c.encode_utf8(&mut [0; 4]).as_bytes())?
        } else {
            let (c, width) = first(text)?;
            part.fits(c).then(|| &text[width..])?
        };
    }
    Some(text)
}

/// The first character and its bytes; an invalid byte counts as a character.
fn first(text: &[u8]) -> Option<(char, usize)> {
    // Decode at most one character: this is called for each position of the text.
    let valid = text[..text.len().min(4)].utf8_chunks().next()?.valid();
    Some(match valid.chars().next() {
        Some(c) => (c, c.len_utf8()),
        None => (char::REPLACEMENT_CHARACTER, 1),
    })
}
