//! The budget of one evaluation: it can be stopped, and the size of the values it creates is counted.

use crate::{
    Stop,
    fault::{Evaluated, Fault, no_overload},
    value::{self, Value},
};

/// Limit for the total size of strings, lists and maps created by one evaluation, in bytes and elements: ten times the
/// largest possible object.
pub(crate) const MAX_MADE: usize = 16 * 1024 * 1024;

/// The remaining budget of one evaluation.
pub(crate) struct Budget<'a> {
    stop: &'a Stop,
    made: usize,
}

impl<'a> Budget<'a> {
    pub(crate) const fn new(stop: &'a Stop) -> Self {
        Self { stop, made: 0 }
    }

    /// Returns `Fault::Stopped` if the evaluation was stopped.
    pub(crate) fn go_on(&self) -> Evaluated<()> {
        if self.stop.is_stopped() {
            return Err(Fault::Stopped);
        }
        Ok(())
    }

    /// Counts a value of `size` that is about to be created.
    pub(crate) fn make(&mut self, size: usize) -> Evaluated<()> {
        self.made = self.made.saturating_add(size);
        if self.made > MAX_MADE {
            return Err(Fault::TooLarge);
        }
        self.go_on()
    }

    /// Whether `container` has `value`.
    pub(crate) fn contains(&mut self, value: &Value, container: &Value) -> Evaluated {
        Ok(Value::Bool(match container {
            Value::Map(map) => value.key().is_some_and(|key| map.contains_key(&key)),
            Value::List(list) => {
                for item in list.iter() {
                    self.go_on()?;
                    if value::equal(item, value) {
                        return Ok(Value::Bool(true));
                    }
                }
                false
            }
            _ => return no_overload("in"),
        }))
    }
}
