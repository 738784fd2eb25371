//! See `muster_fuzz::substitute`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::substitute::check(bytes));
