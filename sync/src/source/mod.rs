//! Git sources: resolving, fetching into mirrors, reading from the object database.
