//! Units that something rests on, and that are not among those read: a watch may be behind what another process has read and decided.

use muster_rollout::{Incarnation, Memory, UnitId};

use crate::Rules;

/// A unit that has a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its name.
    pub unit: UnitId,
    /// Which unit of that name. `None`: whichever there is.
    pub incarnation: Option<Incarnation>,
}

impl Holder {
    /// Whether this is the one.
    pub fn is(&self, incarnation: Incarnation) -> bool {
        self.incarnation.is_none_or(|expected| expected == incarnation)
    }
}

/// The units that are to be read once more: nothing is decided while one of them is there after all.
///
/// `memory` is `None` where it is lost; then `holders` count, the units that have rows. Else those that are charged count: a unit
/// loses its charge only by having gone (W1). `read` gives the unit of a name as it was read.
pub fn missing(
    memory: Option<&Memory>,
    holders: impl IntoIterator<Item = Holder>,
    read: impl Fn(&UnitId) -> Option<Incarnation>,
    rules: &Rules<'_>,
) -> Vec<Holder> {
    let is_missing = |holder: &Holder| !read(&holder.unit).is_some_and(|incarnation| holder.is(incarnation));
    match memory {
        Some(_) if !rules.checks_charged => Vec::new(),
        None if !rules.checks_holders => Vec::new(),
        Some(memory) => {
            let charged = memory.charges.iter().map(|(unit, charge)| Holder {
                unit: unit.clone(),
                incarnation: Some(charge.incarnation),
            });
            charged.filter(is_missing).collect()
        }
        None => holders.into_iter().filter(is_missing).collect(),
    }
}
