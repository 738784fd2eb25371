//! Whether the updaters together can make a change in place: the patches of each are applied to what those before it reached, and the end
//! is to be what is desired.

use serde_json::{Value, json};

use crate::{
    objects::{Level, Malformed, Objects, Part},
    patch::{Patch, PatchError},
    wire::CanAnswer,
};

/// A change whose updaters are being asked.
#[derive(Clone, Debug)]
pub struct Coverage {
    before: Objects,
    reached: Objects,
    desired: Objects,
    steps: Vec<String>,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Covered {
    /// The updaters make the whole change.
    InPlace {
        /// Those that change something, in their order.
        steps: Vec<String>,
        /// The digest of what is desired.
        digest: String,
        /// For each object, what they change together.
        patches: Vec<(Part, Patch)>,
    },
    /// Something is left.
    NotCovered(Vec<Difference>),
}

/// An object that still differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its kind.
    pub kind: String,
    /// The fields that differ, as JSON pointers into what is compared; empty if the object is there on one side only.
    pub fields: Vec<String>,
}

impl Coverage {
    /// Begins with a request of Cluster API.
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

    /// Whether nothing is left to be covered.
    pub fn is_reached(&self) -> bool {
        self.left().is_empty()
    }

    /// Whether updaters can make a difference: there are a bootstrap config on both sides or on none, and something is left.
    pub fn is_open(&self) -> bool {
        let has = |side: &Objects| side.get(Part::Bootstrap).is_some();
        has(&self.before) == has(&self.desired) && !self.is_reached()
    }

    /// What the next updater is asked.
    pub fn sides(&self) -> Value {
        json!({"current": self.reached.side(), "desired": self.desired.side()})
    }

    /// Takes what an updater answered; false if it changes nothing. After an error nothing was taken.
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

    /// What there is.
    pub const fn before(&self) -> &Objects {
        &self.before
    }

    /// What the updaters reached so far, as a side of a request.
    pub const fn reached(&self) -> &Objects {
        &self.reached
    }

    /// What is desired.
    pub const fn desired(&self) -> &Objects {
        &self.desired
    }

    /// What came out.
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
