//! Rooms whose files stand in layers: none uses, by whatever way round, a file that uses it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::Context;

use crate::{Problems, tree};

/// The folders.
const ROOMS: &[&str] = &["controllers/src/module"];

/// What each file uses of its folder.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The circles that there are.
pub fn check() -> anyhow::Result<Problems> {
    let mut problems = Problems::new();
    for room in ROOMS {
        let circle = circle(uses(room)?);
        if !circle.is_empty() {
            let files: Vec<&str> = circle.iter().map(String::as_str).collect();
            problems.push(format!(
                "{room}: these files use each other in a circle: {}",
                files.join(", ")
            ));
        }
    }
    Ok(problems)
}

fn uses(room: &str) -> anyhow::Result<Uses> {
    let mut uses = Uses::new();
    let folder = tree::root().join(room);
    for file in fs::read_dir(&folder).with_context(|| room.to_owned())? {
        let path = file?.path();
        let Some(name) = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".rs"))
        else {
            continue;
        };
        if name != "mod" {
            uses.insert(name.to_owned(), siblings(&fs::read_to_string(&path)?));
        }
    }
    let files: BTreeSet<String> = uses.keys().cloned().collect();
    for (name, used) in &mut uses {
        used.retain(|other| other != name && files.contains(other));
    }
    Ok(uses)
}

/// What follows `super::` in product code: `super::one`, and each of `super::{one, two::{a, b}}`.
fn siblings(text: &str) -> BTreeSet<String> {
    let product = text.split("#[cfg(test)]").next().unwrap_or(text);
    let mut found = BTreeSet::new();
    for after in product.split("super::").skip(1) {
        let Some(group) = after.strip_prefix('{') else {
            found.insert(first_word(after));
            continue;
        };
        let (mut depth, mut begins) = (0_usize, true);
        for (at, char) in group.char_indices() {
            match char {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                _ if begins && !char.is_whitespace() => {
                    begins = false;
                    found.insert(first_word(group.get(at..).unwrap_or_default()));
                }
                _ => {}
            }
        }
    }
    found
}

fn first_word(text: &str) -> String {
    text.chars()
        .take_while(|char| char.is_alphanumeric() || *char == '_')
        .collect()
}

/// The files that are left when those are taken away, again and again, that use none of the others or that none of the others uses.
fn circle(mut uses: Uses) -> BTreeSet<String> {
    loop {
        let needed: BTreeSet<String> = uses.values().flatten().cloned().collect();
        let free: Vec<String> = uses
            .iter()
            .filter(|(name, of)| of.is_empty() || !needed.contains(*name))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            return uses.into_keys().collect();
        }
        uses.retain(|name, _| !free.contains(name));
        for of in uses.values_mut() {
            of.retain(|name| !free.contains(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_found_in_product_code_only() {
        let text = "use super::{\n    Error, act,\n    decide::{self, Plan},\n};\nuse super::rows::Row;\nfn a() { super::status::b(); }\n#[cfg(test)]\nuse super::tests;";
        let expect = ["Error", "act", "decide", "rows", "status"].map(str::to_owned);
        assert_eq!(siblings(text), BTreeSet::from(expect));
    }

    #[test]
    fn a_circle_is_named_without_what_leads_to_it() {
        let of = |pairs: &[(&str, &str)]| {
            let mut uses = Uses::new();
            for (one, other) in pairs {
                uses.entry((*one).to_owned())
                    .or_default()
                    .insert((*other).to_owned());
                uses.entry((*other).to_owned()).or_default();
            }
            circle(uses).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of(&[("a", "b"), ("b", "c"), ("a", "c")]), Vec::<String>::new());
        assert_eq!(of(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]), ["b", "c"]);
    }
}
