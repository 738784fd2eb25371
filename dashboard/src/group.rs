//! Name ranges: `eu-{3..40} (38)` instead of thirty-eight names.

use std::collections::BTreeMap;

/// Length from which a run of numbers is folded.
const FOLD_FROM: usize = 3;

/// Folds names that differ only in a number at their end, if the numbers are consecutive. Other names stay as they are.
pub fn fold_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    pieces(names).into_iter().map(|(piece, _)| piece).collect()
}

/// The names on one line, folded. Pieces beyond `shown` are only counted: `a, b, eu-{3..40} (38) and 12 more`. A single
/// remaining piece is shown, since it is as short as its count.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>, shown: usize) -> String {
    let pieces = pieces(names);
    let shown = if pieces.len() == shown + 1 {
        pieces.len()
    } else {
        shown
    };
    let text: Vec<&str> = pieces
        .iter()
        .take(shown)
        .map(|(piece, _)| piece.as_str())
        .collect();
    match pieces.iter().skip(shown).map(|(_, names)| names).sum::<usize>() {
        0 => text.join(", "),
        more => format!("{} and {more} more", text.join(", ")),
    }
}

/// Pieces to show, each with the number of names it contains.
fn pieces<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(String, usize)> {
    let mut numbered: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut folded: Vec<(String, usize)> = Vec::new();
    for name in names {
        match split(name) {
            Some((stem, number)) => numbered.entry(stem).or_default().push(number),
            None => folded.push((name.to_owned(), 1)),
        }
    }
    for (stem, mut numbers) in numbered {
        numbers.sort_unstable();
        numbers.dedup();
        for run in numbers.chunk_by(|a, b| a + 1 == *b) {
            match run {
                [first, .., last] if run.len() >= FOLD_FROM => {
                    folded.push((format!("{stem}{{{first}..{last}}} ({})", run.len()), run.len()));
                }
                _ => folded.extend(run.iter().map(|number| (format!("{stem}{number}"), 1))),
            }
        }
    }
    folded.sort_by(|(a, _), (b, _)| natural(a).cmp(&natural(b)));
    folded
}

/// Sort key for natural order: `eu-2` comes before `eu-10`.
pub(crate) fn natural(name: &str) -> (&str, u64, &str) {
    let (stem, number) = split(name).unwrap_or((name, 0));
    (stem, number, name)
}

/// The number at the end of a name. A number with a leading zero is part of the name: `a-01` is not `a-1`.
fn split(name: &str) -> Option<(&str, u64)> {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let digits = &name[stem.len()..];
    let plain = digits == "0" || !digits.starts_with('0');
    // Numbers that do not fit in a u64 are part of the name.
    digits.parse().ok().filter(|_| plain).map(|number| (stem, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expect: &[&str]) {
        assert_eq!(fold_names(names.iter().copied()), expect, "{names:?}");
    }

    #[test]
    fn runs_of_numbers_fold() {
        check(&["eu-1", "eu-2", "eu-3", "us-1"], &["eu-{1..3} (3)", "us-1"]);
        check(&["eu-1", "eu-2"], &["eu-1", "eu-2"]);
        check(
            &["eu-1", "eu-3", "eu-4", "eu-5", "eu-9"],
            &["eu-1", "eu-9", "eu-{3..5} (3)"],
        );
        check(&["a-01", "a-02", "a-03"], &["a-01", "a-02", "a-03"]);
        check(&["prod", "dev"], &["dev", "prod"]);
        check(&[], &[]);
    }

    #[test]
    fn a_line_counts_what_it_does_not_show() {
        let names = ["a", "b", "eu-1", "eu-2", "eu-3", "us-1", "us-7"];
        assert_eq!(listed(names, 9), "a, b, eu-{1..3} (3), us-1, us-7");
        assert_eq!(listed(names, 2), "a, b and 5 more");
        assert_eq!(listed(names, 4), "a, b, eu-{1..3} (3), us-1, us-7");
    }
}
