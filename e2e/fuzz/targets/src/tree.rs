//! See `muster_fuzz::tree`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::tree::check(bytes));
