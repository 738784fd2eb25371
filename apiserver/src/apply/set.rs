//! Sets of field paths (fieldsV1), and the algebra of ownership.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element;
use super::types::{Form, Ty};

/// A set of paths: those that end here, and those that continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    members: BTreeSet<String>,
    children: BTreeMap<String, Self>,
}

impl FieldSet {
    /// A set of these paths of members.
    pub(super) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<String> = path.iter().map(|name| element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Reads fieldsV1.
    pub(super) fn read(fields: &Value) -> Self {
        let mut set = Self::default();
        for (key, below) in fields.as_object().into_iter().flatten() {
            if key == "." {
                continue;
            }
            let step = element::canonical(key);
            let inner = Self::read(below);
            let ends_here = below
                .as_object()
                .is_none_or(|below| below.is_empty() || below.contains_key("."));
            if ends_here {
                set.members.insert(step.clone());
            }
            if !inner.is_empty() {
                set.children.insert(step, inner);
            }
        }
        set
    }

    /// The set as fieldsV1.
    pub(super) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        for step in self.members.iter().chain(self.children.keys()) {
            if fields.contains_key(step) {
                continue; // already done: a member with children; twice per level would cost 2^depth
            }
            let mut below = match self.children.get(step).map(Self::to_json) {
                Some(Value::Object(below)) => below,
                _ => Map::new(),
            };
            if !below.is_empty() && self.members.contains(step) {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            fields.insert(step.clone(), Value::Object(below));
        }
        Value::Object(fields)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    pub(super) fn insert(&mut self, path: &[String]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(super) fn has(&self, step: &str) -> bool {
        self.members.contains(step)
    }

    /// The paths that continue below `step`.
    pub(super) fn below(&self, step: &str) -> Option<&Self> {
        self.children.get(step).filter(|set| !set.is_empty())
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.members.extend(other.members.iter().cloned());
        for (step, set) in &other.children {
            let child = union.children.entry(step.clone()).or_default();
            *child = child.union(set);
        }
        union
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(step, set)| {
            let both = set.intersection(other.children.get(step)?);
            (!both.is_empty()).then(|| (step.clone(), both))
        });
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The paths of `self` that are not in `other`; paths below a path of `other` are kept.
    pub(super) fn difference(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(step, set)| {
            let rest = other
                .children
                .get(step)
                .map_or_else(|| set.clone(), |other| set.difference(other));
            (!rest.is_empty()).then(|| (step.clone(), rest))
        });
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Like [`Self::difference`], but also removes all paths below a path of `other`.
    pub(super) fn recursive_difference(&self, other: &Self) -> Self {
        let children = self
            .children
            .iter()
            .filter(|(step, _)| !other.members.contains(*step))
            .filter_map(|(step, set)| {
                let rest = other
                    .children
                    .get(step)
                    .map_or_else(|| set.clone(), |other| set.recursive_difference(other));
                (!rest.is_empty()).then(|| (step.clone(), rest))
            });
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The set extended by every declared field on the way to a path.
    pub(super) fn with_named_fields(&self, ty: Option<Ty<'_>>) -> Self {
        let atom = ty.map(Ty::atom);
        let map = atom.and_then(|atom| atom.map);
        let list = atom.and_then(|atom| atom.list);
        let mut members = self.members.clone();
        let children = self.children.iter().map(|(step, set)| {
            let mut below = None;
            if let Some(name) = element::field_name(step) {
                if map.is_some_and(|map| map.field(name).is_some()) {
                    members.insert(step.clone());
                }
                below = map.and_then(|map| map.member(name));
            } else if element::is_key(step) {
                below = list.map(|list| list.element);
            }
            (step.clone(), set.with_named_fields(below))
        });
        let children = children.collect();
        Self { members, children }
    }

    /// All paths; those that end come before those that continue.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        let mut paths: Vec<Vec<String>> = self.members.iter().map(|step| vec![step.clone()]).collect();
        for (step, set) in &self.children {
            paths.extend(set.paths().into_iter().map(|rest| {
                let mut path = vec![step.clone()];
                path.extend(rest);
                path
            }));
        }
        paths
    }
}

/// All paths of `value`: what its applier owns.
pub(super) fn of_value(value: &Value, ty: Ty<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, ty, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, ty: Ty<'_>, path: &mut Vec<String>, set: &mut FieldSet) {
    match ty.atom().fitting(Some(value)).form() {
        Form::Scalar(_) => set.insert(path),
        Form::List(list) if !list.associative => set.insert(path),
        Form::Map(map) if map.atomic => set.insert(path),
        Form::List(list) => {
            // Validation has made sure that every item has an element.
            let items = value.as_array().into_iter().flatten();
            let steps: Vec<(String, &Value)> = items
                .filter_map(|item| Some((element::list_item_step(&list, item).ok()?, item)))
                .collect();
            for (step, item) in &steps {
                let twice = steps.iter().filter(|(other, _)| other == step).count() > 1;
                path.push(step.clone());
                if !twice {
                    collect(item, list.element, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        Form::Map(map) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                path.push(element::field(name));
                if let Some(ty) = map.member(name) {
                    collect(value, ty, path, set);
                }
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || map.field(name).is_none() {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}
