//! Units that a decision depends on and that are missing among those read: a watch may be behind what another process
//! has read and decided.

use muster_rollout::{Incarnation, Memory, UnitId};

use crate::Rules;

/// A unit that has an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The name of the unit.
    pub unit: UnitId,
    /// The incarnation; `None` for any unit of that name.
    pub incarnation: Option<Incarnation>,
}

impl Holder {
    /// Whether this is the unit.
    pub fn is(&self, incarnation: Incarnation) -> bool {
        self.incarnation.is_none_or(|expected| expected == incarnation)
    }
}

/// The units that must be read again: nothing is decided while one of them exists after all.
///
/// `memory` is `None` if it is lost; then the `holders`, the units that have assignments, are checked. Otherwise the
/// units in flight are: the in-flight change of a missing unit is dropped only if the unit is really gone (W1). `read`
/// returns the unit of a name as it was read.
pub fn missing(
    memory: Option<&Memory>,
    holders: impl IntoIterator<Item = Holder>,
    read: impl Fn(&UnitId) -> Option<Incarnation>,
    rules: &Rules<'_>,
) -> Vec<Holder> {
    let is_missing = |holder: &Holder| !read(&holder.unit).is_some_and(|incarnation| holder.is(incarnation));
    match memory {
        Some(_) if !rules.checks_in_flight => Vec::new(),
        None if !rules.checks_holders => Vec::new(),
        Some(memory) => {
            let in_flight = memory.in_flight.iter().map(|(unit, change)| Holder {
                unit: unit.clone(),
                incarnation: Some(change.incarnation),
            });
            in_flight.filter(is_missing).collect()
        }
        None => holders.into_iter().filter(is_missing).collect(),
    }
}
