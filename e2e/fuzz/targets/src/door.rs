//! See `muster_fuzz::door`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::door::check(bytes));
