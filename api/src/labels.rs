//! Labels, annotations, finalizers and field managers: one constant each.
