//! Compact lists of names with ranges, in the notation of shells: `eu-{001..040},us-7`.
//!
//! Invariant: [`unfold`] of [`fold`] yields the same set of names, for all names without `{`, `}` and `,`, which object
//! names cannot contain.

use thiserror::Error;

/// A number with this many digits fits in a `u64`; longer ones are treated as text.
const MAX_DIGITS: usize = 18;

/// Why a text is not a valid list of names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// A part is neither a name nor a name with one range.
    #[error("{0:?} is neither a name nor a range of names such as eu-{{001..040}}")]
    Invalid(String),
    /// The list expands to more names than the limit.
    #[error("more than {0} names")]
    TooMany(usize),
}

/// Names that differ only in their last number, which has the same number of digits in all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Series<'a> {
    before: &'a str,
    /// Number of digits; 0: a single name without a number.
    digits: usize,
    after: &'a str,
}

impl<'a> Series<'a> {
    /// The series that a name belongs to, and its number.
    fn of(name: &'a str) -> (Self, u64) {
        let is_digit = |byte: u8| byte.is_ascii_digit();
        let end = name.bytes().rposition(is_digit).map_or(0, |last| last + 1);
        let (rest, after) = name.split_at(end);
        let start = rest.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (before, number) = rest.split_at(start);
        match number.parse() {
            Ok(parsed) if number.len() <= MAX_DIGITS => {
                let digits = number.len();
                (
                    Self {
                        before,
                        digits,
                        after,
                    },
                    parsed,
                )
            }
            _ => (
                Self {
                    before: name,
                    digits: 0,
                    after: "",
                },
                0,
            ),
        }
    }

    /// The names between two numbers, as one part of a list.
    fn part(&self, first: u64, last: u64) -> String {
        let Self {
            before,
            digits,
            after,
        } = self;
        match digits {
            0 => (*before).to_owned(),
            _ if first == last => format!("{before}{first:0digits$}{after}"),
            _ => format!("{before}{{{first:0digits$}..{last:0digits$}}}{after}"),
        }
    }
}

/// A set of names as one text: names with consecutive last numbers of the same length form one range.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut all: Vec<(Series<'a>, u64)> = names.into_iter().map(Series::of).collect();
    all.sort_unstable();
    all.dedup();
    let follow = |(of, number): &(Series<'a>, u64), next: &(Series<'a>, u64)| (*of, number + 1) == *next;
    let runs = all.chunk_by(follow);
    let parts: Vec<String> = runs
        .filter_map(|run| {
            let ((of, first), (_, last)) = (run.first()?, run.last()?);
            Some(of.part(*first, *last))
        })
        .collect();
    parts.join(",")
}

/// The names of a list of names and ranges, in order; an error if there are more than `most`.
pub fn unfold(text: &str, most: usize) -> Result<Vec<String>, RangeError> {
    let mut names = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        names.extend(expand(part, most - names.len()).map_err(|error| match error {
            RangeError::TooMany(_) => RangeError::TooMany(most),
            RangeError::Invalid(_) => error,
        })?);
    }
    Ok(names)
}

/// The names that one part means: `eu-{1..3}` is eu-1, eu-2 and eu-3, `eu-{01..03}` is eu-01, eu-02 and eu-03; a
/// plain name means itself.
pub fn expand(part: &str, most: usize) -> Result<Vec<String>, RangeError> {
    let pattern = Pattern::read(part).ok_or_else(|| RangeError::Invalid(part.to_owned()))?;
    match pattern {
        Pattern::Name(name) if most > 0 => Ok(vec![name.to_owned()]),
        Pattern::Range {
            before,
            first,
            last,
            digits,
            after,
        } if last - first < most as u64 => {
            let name = |number| format!("{before}{number:0digits$}{after}");
            Ok((first..=last).map(name).collect())
        }
        Pattern::Name(_) | Pattern::Range { .. } => Err(RangeError::TooMany(most)),
    }
}

/// One parsed part of a list.
enum Pattern<'a> {
    Name(&'a str),
    Range {
        before: &'a str,
        first: u64,
        /// Not less than `first`.
        last: u64,
        /// Minimum number of digits; shorter numbers are padded with zeros.
        digits: usize,
        after: &'a str,
    },
}

impl<'a> Pattern<'a> {
    fn read(part: &'a str) -> Option<Self> {
        let Some((before, rest)) = part.split_once('{') else {
            return (!part.is_empty() && !part.contains('}')).then_some(Self::Name(part));
        };
        let (range, after) = rest.split_once('}')?;
        let (from, to) = range.split_once("..")?;
        let (first, last) = (number(from)?, number(to)?);
        let is_range = first <= last && !after.contains(['{', '}']);
        is_range.then_some(Self::Range {
            before,
            first,
            last,
            digits: if from.starts_with('0') { from.len() } else { 0 },
            after,
        })
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.len() <= MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn folded(names: &[&str]) -> String {
        fold(names.iter().copied())
    }

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(folded(&["eu-2", "eu-1", "us-7", "eu-3"]), "eu-{1..3},us-7");
        assert_eq!(folded(&["eu-09", "eu-10", "eu-12"]), "eu-{09..10},eu-12");
        assert_eq!(folded(&["eu-9", "eu-10"]), "eu-9,eu-10", "of different widths");
        assert_eq!(folded(&["eu1-prod", "eu2-prod", "dev"]), "dev,eu{1..2}-prod");
        assert_eq!(folded(&["a-99999999999999999999"]), "a-99999999999999999999");
        assert_eq!(folded(&[]), "");
    }

    #[test]
    fn what_is_no_list_of_names_is_refused() {
        for wrong in [
            ",",
            "a,",
            "eu-{1..",
            "eu-{a..b}",
            "eu-{2..1}",
            "eu-{1..2}{1..2}",
            "eu-1}",
            "{+1..2}",
        ] {
            assert!(
                matches!(unfold(wrong, 100), Err(RangeError::Invalid(_))),
                "{wrong}"
            );
        }
        for many in ["a-{1..101}", "a-{1..100},b", "a-{0..99999999999999999}"] {
            assert_eq!(unfold(many, 100), Err(RangeError::TooMany(100)), "{many}");
        }
        assert_eq!(unfold("a-{1..99},b", 100).map(|names| names.len()), Ok(100));
    }

    proptest! {
        #[test]
        fn unfolding_is_the_inverse_of_folding(names in proptest::collection::btree_set("[a-c]{0,2}-?[0-9]{1,3}[a-c.]{0,2}|[a-z.-]{1,4}", 0..60)) {
            let text = fold(names.iter().map(String::as_str));
            let read = unfold(&text, names.len()).unwrap();
            prop_assert_eq!(read.len(), names.len(), "each name once: {}", text);
            prop_assert_eq!(BTreeSet::from_iter(read), names);
        }
    }
}
