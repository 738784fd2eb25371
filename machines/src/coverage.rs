//! Decides whether the updaters together can make a change in place: the patches of each updater are applied to the
//! result of those before it, and the final result must equal the desired state.

use serde_json::{Value, json};

use crate::{
    objects::{Level, Malformed, Objects, Part},
    patch::{Patch, PatchError},
    wire::CanAnswer,
};

/// A change in place, while its updaters are called one after the other.
#[derive(Clone, Debug)]
pub struct Coverage {
    before: Objects,
    reached: Objects,
    desired: Objects,
    steps: Vec<String>,
}

/// The result of asking all updaters.
#[derive(Clone, Debug, PartialEq)]
pub enum Covered {
    /// The updaters make the whole change.
    InPlace {
        /// The updaters that change something, in order.
        steps: Vec<String>,
        /// The digest of the desired objects.
        digest: String,
        /// The combined patch of all updaters, for each object.
        patches: Vec<(Part, Patch)>,
    },
    /// These objects still differ.
    NotCovered(Vec<Difference>),
}

/// An object that still differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of the object.
    pub kind: String,
    /// The fields that differ, as JSON pointers into the compared scope; empty if only one side has the object.
    pub fields: Vec<String>,
}

impl Coverage {
    /// Starts with a request of Cluster API.
    pub fn begin(level: Level, request: &Value) -> Result<Self, Malformed> {
        let side = |name: &str| {
            let side = request.get(name).unwrap_or(&Value::Null);
            Objects::read(level, side).map_err(|problem| match problem {
                Malformed::Missing(object) => Malformed::Missing(format!("{name}.{object}")),
                Malformed::Json(_) => problem,
            })
        };
        let before = side("current")?;
        Ok(Self {
            reached: before.clone(),
            before,
            desired: side("desired")?,
            steps: Vec::new(),
        })
    }

    /// Whether all differences are covered.
    pub fn is_reached(&self) -> bool {
        self.left().is_empty()
    }

    /// Whether updaters can help: both sides have a bootstrap config or neither has one, and a difference remains.
    pub fn is_open(&self) -> bool {
        let has = |side: &Objects| side.get(Part::Bootstrap).is_some();
        has(&self.before) == has(&self.desired) && !self.is_reached()
    }

    /// The request body for the next updater.
    pub fn sides(&self) -> Value {
        json!({"current": self.reached.side(), "desired": self.desired.side()})
    }

    /// Applies the answer of an updater; false if it changes nothing. An error leaves the state unchanged.
    pub fn take(&mut self, updater: &str, answer: &CanAnswer) -> Result<bool, PatchError> {
        let mut reached = self.reached.clone();
        let mut changed = false;
        for part in Level::PARTS {
            if let Some(object) = self.reached.get(part)
                && let Some(patched) = answer.patch(part).applied(object)?
            {
                changed |= reached.take(part, &patched, &self.desired);
            }
        }
        self.reached = reached;
        if changed {
            self.steps.push(updater.to_owned());
        }
        Ok(changed)
    }

    /// The current objects.
    pub const fn before(&self) -> &Objects {
        &self.before
    }

    /// The objects after the patches so far.
    pub const fn reached(&self) -> &Objects {
        &self.reached
    }

    /// The desired objects.
    pub const fn desired(&self) -> &Objects {
        &self.desired
    }

    /// The final result.
    pub fn end(self) -> Covered {
        let left = self.left();
        if !left.is_empty() {
            return Covered::NotCovered(left);
        }
        let patches = Level::PARTS.into_iter().filter_map(|part| {
            let patch = json_patch::diff(self.before.get(part)?, self.reached.get(part)?);
            (!patch.0.is_empty()).then(|| (part, Patch::json(&patch)))
        });
        Covered::InPlace {
            digest: self.desired.digest(),
            patches: patches.collect(),
            steps: self.steps,
        }
    }

    fn left(&self) -> Vec<Difference> {
        let differing = Level::PARTS
            .into_iter()
            .filter(|part| self.reached.differs(&self.desired, *part));
        differing.map(|part| self.difference(part)).collect()
    }

    fn difference(&self, part: Part) -> Difference {
        let object = self.reached.get(part).or_else(|| self.desired.get(part));
        let kind = object.and_then(|object| object["kind"].as_str());
        let fields = match (self.reached.compared(part), self.desired.compared(part)) {
            (Some(reached), Some(desired)) => {
                let patch = json_patch::diff(&reached, &desired);
                patch
                    .0
                    .iter()
                    .map(|operation| operation.path().to_string())
                    .collect()
            }
            _ => Vec::new(),
        };
        Difference {
            kind: kind.unwrap_or_else(|| self.reached.level().key(part)).to_owned(),
            fields,
        }
    }
}
