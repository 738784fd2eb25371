//! Reports the progress of a library call.

/// Where a library reports progress: its result is its return value.
pub trait Reporter: Send + Sync {
    /// Reports a line. An error means that nothing more can be written, and the caller must stop.
    fn line(&self, text: &str) -> anyhow::Result<()>;

    /// Reports text unchanged, for programs. For errors see `line`.
    fn text(&self, text: &str) -> anyhow::Result<()>;

    /// Reports a notice outside the output, such as `warning: …`.
    fn warn(&self, text: &str);
}
