//! Parts of a page, so that a browser gets only what changed.

use std::hash::{DefaultHasher, Hash, Hasher};

use maud::{Markup, PreEscaped};

/// A page: its title, and its parts from top to bottom.
#[derive(Debug)]
pub struct Page {
    /// Window title.
    pub title: String,
    /// Whether the subject of the page exists.
    pub is_found: bool,
    /// Parts of the page.
    pub parts: Vec<Part>,
}

/// An element of a page with an id.
#[derive(Debug)]
pub struct Part {
    id: String,
    html: String,
    /// Hash of the part without the content of its pieces.
    frame: u64,
    pieces: Vec<Piece>,
}

/// An element within a part, with an id, that can change on its own.
#[derive(Debug)]
pub struct Piece {
    id: String,
    html: String,
    hash: u64,
}

/// An element that replaces the one with the same id: the id, and the markup.
pub type Change<'a> = (&'a str, &'a str);

impl Part {
    /// A part that changes as a whole. The element in `markup` must have this id.
    pub fn unsplit(id: &str, markup: Markup) -> Self {
        Self {
            id: id.to_owned(),
            frame: hash(&markup.0),
            html: markup.0,
            pieces: Vec::new(),
        }
    }

    /// A part with pieces; `draw` gets the markup of each, in order. `draw` is called twice: the second time with only
    /// the ids, to hash the frame around the pieces.
    pub fn of(id: &str, pieces: Vec<Piece>, draw: impl Fn(&[PreEscaped<&str>]) -> Markup) -> Self {
        let full: Vec<PreEscaped<&str>> = pieces.iter().map(|piece| PreEscaped(&*piece.html)).collect();
        let html = draw(&full).0;
        let empty: Vec<PreEscaped<&str>> = pieces.iter().map(|piece| PreEscaped(&*piece.id)).collect();
        Self {
            id: id.to_owned(),
            frame: hash(&draw(&empty).0),
            html,
            pieces,
        }
    }

    /// Markup of the part.
    pub fn markup(&self) -> PreEscaped<&str> {
        PreEscaped(&self.html)
    }
}

impl Piece {
    /// Creates a piece. The element in `markup` must have this id.
    pub fn new(id: String, markup: Markup) -> Self {
        Self {
            id,
            hash: hash(&markup.0),
            html: markup.0,
        }
    }
}

impl Page {
    /// Hash of the page content: a browser that shows this version is up to date.
    pub fn version(&self) -> String {
        let parts = self.parts.iter().map(|part| {
            let pieces: Vec<u64> = part.pieces.iter().map(|piece| piece.hash).collect();
            (&part.id, part.frame, pieces)
        });
        format!("{:016x}", hash(&parts.collect::<Vec<_>>()))
    }
}

/// What a browser that shows `old` needs; all parts if `old` is unknown.
pub fn changes<'a>(old: Option<&Page>, new: &'a Page) -> Vec<Change<'a>> {
    let mut changes: Vec<Change<'a>> = Vec::new();
    for part in &new.parts {
        let before = old.and_then(|old| old.parts.iter().find(|before| before.id == part.id));
        match before {
            Some(before) if before.frame == part.frame => {
                let both = before.pieces.iter().zip(&part.pieces);
                changes.extend(
                    both.filter(|(old, new)| old.hash != new.hash)
                        .map(|(_, new)| (&*new.id, &*new.html)),
                );
            }
            _ => changes.push((&part.id, &part.html)),
        }
    }
    changes
}

fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    fn page(head: &str, cells: &[(&str, &str)]) -> Page {
        let pieces = cells
            .iter()
            .map(|(id, text)| Piece::new((*id).to_owned(), html! { td id=(id) { (text) } }))
            .collect();
        let table = Part::of("table", pieces, |cells| {
            html! { table id="table" { caption { (head) } @for cell in cells { (cell) } } }
        });
        Page {
            title: String::new(),
            is_found: true,
            parts: vec![Part::unsplit("head", html! { p id="head" { "same" } }), table],
        }
    }

    fn check(old: Option<&Page>, new: &Page, expect: &[&str]) {
        let ids: Vec<&str> = changes(old, new).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, expect);
        let same = old.is_some_and(|old| old.version() == new.version());
        assert_eq!(same, expect.is_empty());
    }

    #[test]
    fn only_what_changed_is_sent() {
        let old = page("a", &[("x", "1"), ("y", "1")]);
        check(Some(&old), &page("a", &[("x", "1"), ("y", "1")]), &[]);
        check(Some(&old), &page("a", &[("x", "1"), ("y", "2")]), &["y"]);
        check(Some(&old), &page("b", &[("x", "1"), ("y", "2")]), &["table"]);
        check(Some(&old), &page("a", &[("x", "1"), ("z", "1")]), &["table"]);
        check(Some(&old), &page("a", &[("x", "1")]), &["table"]);
        check(None, &old, &["head", "table"]);
    }
}
