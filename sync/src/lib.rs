//! From git to a cluster: sources, YAML, substitution, staged apply, inventory, health.
