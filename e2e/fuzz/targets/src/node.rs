//! See `muster_fuzz::node`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::node::check(bytes));
