//! Cluster API's `Cluster`, both served versions, as far as muster reads it.
