//! Prints what happens in the demo.

use std::sync::Arc;

use muster_fleet::Reporter;

/// Prints what happens. The demo goes on when its reader closes the pipe: other terminals use it too.
#[derive(Clone)]
pub(crate) struct Narrator(pub Arc<dyn Reporter>);

impl Narrator {
    /// Prints a line.
    pub(crate) fn line(&self, text: &str) {
        let _ = self.0.line(text);
    }

    /// Prints a notice outside the output, such as `warning: …`.
    pub(crate) fn warn(&self, text: &str) {
        self.0.warn(text);
    }
}
