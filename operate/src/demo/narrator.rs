//! Says what happens in the demo.

use std::sync::Arc;

use muster_fleet::Tell;

/// Says what happens. The demo goes on when its reader goes away: other terminals use it too.
#[derive(Clone)]
pub(crate) struct Narrator(pub Arc<dyn Tell>);

impl Narrator {
    /// A line of the output.
    pub(crate) fn line(&self, text: &str) {
        let _ = self.0.line(text);
    }

    /// Something to know beside the output, such as `warning: …`.
    pub(crate) fn warn(&self, text: &str) {
        self.0.warn(text);
    }
}
