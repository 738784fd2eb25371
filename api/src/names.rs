//! Generated names: pure functions of full identities.
