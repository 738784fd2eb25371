//! What a sync is: source, package, bindings.
