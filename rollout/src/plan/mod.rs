//! The decision, step by step.

use crate::{Decision, Memory, Millis, Spec, Summary, Unit};

/// Decide.
pub fn plan(spec: &Spec, memory: &Memory, units: &[Unit], now: Millis) -> Decision {
    let _ = (spec, units, now);
    Decision {
        memory: memory.clone(),
        steps: Vec::new(),
        summary: Summary::default(),
        reasons: Vec::new(),
        wake_at: None,
    }
}
