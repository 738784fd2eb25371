//! What a library says on its way.

/// Where a library says something before it is at its end: what comes of it, it returns as a value.
pub trait Tell: Send + Sync {
    /// A line for whoever reads the output. An error: nothing more can be written, and whoever calls this ends.
    fn line(&self, text: &str) -> anyhow::Result<()>;

    /// A text as it is, which programs read. An error: as of a line.
    fn text(&self, text: &str) -> anyhow::Result<()>;

    /// Something to know beside the output, such as `warning: …`.
    fn warn(&self, text: &str);
}
