//! Bindings: evaluation and the objects they refer to.
