//! Lists: page by page, now or at an earlier revision.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::history::{Expired, History};
use super::{Object, ObjectKey, Stored};

/// Which part of a resource to read.
#[derive(Default)]
pub(crate) struct PageQuery<'a> {
    /// Only this namespace.
    pub namespace: Option<&'a str>,
    /// Only objects after this key.
    pub after: Option<ObjectKey>,
    /// Maximum number of objects.
    pub limit: Option<usize>,
    /// The state at this revision; the current one if absent.
    pub at: Option<u64>,
    /// Only objects for which this is true.
    pub filter: Option<&'a (dyn Fn(&Stored) -> bool + Sync)>,
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    /// The objects, in key order.
    pub items: Vec<Object>,
    /// The revision of the list.
    pub revision: u64,
    /// The key of the last object, if more follow.
    pub more_after: Option<ObjectKey>,
    /// How many more objects there are (not filtered).
    pub remaining: usize,
}

impl Page {
    pub(super) fn empty(revision: u64) -> Self {
        Self {
            items: Vec::new(),
            revision,
            more_after: None,
            remaining: 0,
        }
    }
}

pub(super) fn read(
    objects: &BTreeMap<ObjectKey, Object>,
    history: &History,
    current: u64,
    query: &PageQuery<'_>,
) -> Result<Page, Expired> {
    let revision = query.at.unwrap_or(current);
    let then = if revision < current {
        undone(history, revision)?
    } else {
        BTreeMap::new()
    };
    let range = (lower_bound(query), Bound::Unbounded);
    let in_namespace = |key: &ObjectKey| query.namespace.is_none_or(|namespace| key.namespace == namespace);
    let mut live = objects
        .range::<ObjectKey, _>(range.clone())
        .filter(|(key, _)| !then.contains_key(*key))
        .peekable();
    let mut past = then
        .range::<ObjectKey, _>(range)
        .filter_map(|(key, was)| Some((key, was.as_ref()?)))
        .peekable();
    let merged = std::iter::from_fn(|| match (live.peek(), past.peek()) {
        (Some((a, _)), Some((b, _))) if b < a => past.next(),
        (Some(_), _) => live.next(),
        (None, _) => past.next(),
    });
    let mut page = Page::empty(revision);
    let mut last = None;
    for (key, object) in merged.take_while(|(key, _)| in_namespace(key)) {
        if query.limit.is_some_and(|limit| page.items.len() >= limit) {
            page.remaining += 1;
            page.more_after.clone_from(&last);
            continue;
        }
        if query.filter.is_none_or(|filter| filter(object)) {
            page.items.push(object.clone());
        }
        last = Some(key.clone());
    }
    Ok(page)
}

fn lower_bound(query: &PageQuery<'_>) -> Bound<ObjectKey> {
    match (&query.after, query.namespace) {
        (Some(after), _) => Bound::Excluded(after.clone()),
        (None, Some(namespace)) => Bound::Included(ObjectKey::new(namespace, "")),
        (None, None) => Bound::Unbounded,
    }
}

/// The state at `revision` of each key that was written since.
fn undone(history: &History, revision: u64) -> Result<BTreeMap<ObjectKey, Option<Object>>, Expired> {
    let mut then = BTreeMap::new();
    for change in history.back_to(revision)? {
        then.insert(change.key.clone(), change.previous.clone());
    }
    Ok(then)
}
