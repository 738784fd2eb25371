//! See `muster_fuzz::patch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::patch::check(bytes));
