//! The order of pods by name.

use std::cmp::Ordering;

/// Natural order: runs of digits are compared as numbers, so that `db-2` sorts before `db-10`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (parts(a), parts(b));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => compare(a, b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Compares numbers of any length: by their length without leading zeros, then by their digits.
fn compare(a: &str, b: &str) -> Ordering {
    let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    if !is_number(a) || !is_number(b) {
        return a.cmp(b);
    }
    let (short, other) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    (short.len(), short, a.len()).cmp(&(other.len(), other, b.len()))
}

/// Splits a name into runs of digits and the text between them.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let same = |char: char| char.is_ascii_digit() == first.is_ascii_digit();
        let end = rest.find(|char| !same(char)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = [
            "a-10",
            "a-2",
            "a-1",
            "b-0",
            "a-02",
            "a",
            "a-1-3",
            "a-99999999999999999999999",
        ];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            [
                "a",
                "a-1",
                "a-1-3",
                "a-2",
                "a-02",
                "a-10",
                "a-99999999999999999999999",
                "b-0"
            ]
        );
    }
}
