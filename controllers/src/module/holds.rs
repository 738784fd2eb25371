//! Holds: a Cluster or a Node held for all modules by its own annotation, or units held for one module by the module's
//! annotation. Pure.

use jiff::Timestamp;
use muster_api::{control::Control, labels::annotation, reasons::Reason};

use super::{
    command::{ModuleAddress, command},
    controls::Controls,
    unit::Unit,
};

/// Why a unit is held, and when the hold expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Reason for the unit.
    pub reason: Reason,
    /// Who set the hold, why, until when, and how it ends.
    pub message: String,
    /// When it expires; `None` if it does not.
    pub until: Option<Timestamp>,
}

/// The hold of a unit for a module.
pub(crate) fn hold_of_unit(
    unit: &Unit<'_>,
    module: &ModuleAddress<'_>,
    controls: &Controls,
    now: Timestamp,
) -> Option<Hold> {
    by_unit(unit, module.namespace, now).or_else(|| by_module(unit, module, controls.held(now)?))
}

fn by_unit(unit: &Unit<'_>, namespace: &str, now: Timestamp) -> Option<Hold> {
    let Unit { words, name, .. } = unit;
    let object = unit.object();
    let address = ModuleAddress {
        namespace,
        module: &object,
    };
    let release = command(&address, annotation::HOLD, None);
    let text = unit.annotations.get(annotation::HOLD)?;
    let (message, until) = match Control::parse(text).and_then(|control| control.meant(now)) {
        Ok(control) if control.holds(now) => (
            format!(
                "held for all {}{}; to release it: {release}",
                words.modules,
                control.provenance()
            ),
            control.until,
        ),
        Ok(_) => return None,
        Err(error) => {
            let message = format!(
                "annotation {} on {} {name} cannot be read: {error}; nothing is changed there until it is fixed or removed: {release}",
                annotation::HOLD,
                words.kind
            );
            (message, None)
        }
    };
    Some(Hold {
        reason: Reason::Held,
        message,
        until,
    })
}

fn by_module(unit: &Unit<'_>, module: &ModuleAddress<'_>, control: &Control) -> Option<Hold> {
    let mut names = control.names();
    if !names.remove(unit.name) {
        return None;
    }
    let others: Vec<&str> = names.into_iter().collect();
    let others = others.join(",");
    let rest = (!others.is_empty()).then_some(others.as_str());
    Some(Hold {
        reason: Reason::Held,
        message: format!(
            "held for this {}{}; to release it: {}",
            unit.words.module,
            control.provenance(),
            command(module, annotation::HOLD, rest)
        ),
        until: control.until,
    })
}
