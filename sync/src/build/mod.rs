//! From files to the objects that would be applied, in order.
