//! The CustomResourceDefinitions of muster, generated from the types.
