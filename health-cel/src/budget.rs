//! What one evaluation may still do: it can be stopped, and what it makes is counted.

use crate::{
    Stop,
    fault::{Evaluated, Fault, no_overload},
    value::{self, Value},
};

/// The most that the texts, lists and maps of one evaluation may come to, in bytes and elements: ten times an object of the greatest size.
pub(crate) const MAX_MADE: usize = 16 * 1024 * 1024;

/// What is left of one evaluation.
pub(crate) struct Budget<'a> {
    stop: &'a Stop,
    made: usize,
}

impl<'a> Budget<'a> {
    pub(crate) const fn new(stop: &'a Stop) -> Self {
        Self { stop, made: 0 }
    }

    /// Goes on, unless it is stopped.
    pub(crate) fn go_on(&self) -> Evaluated<()> {
        if self.stop.is_stopped() {
            return Err(Fault::Stopped);
        }
        Ok(())
    }

    /// Counts what is about to be made.
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
