//! What this crate promises, one file each; one binary, because linking costs more than testing.

mod columns;
mod conditions;
mod crds;
mod defaults;
mod digests;
mod examples;
mod names;
mod quantities;
mod reasons;
mod rules;
mod selector;
mod support;
mod unsupported;
mod validation;
