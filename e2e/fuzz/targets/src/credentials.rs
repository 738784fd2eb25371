//! See `muster_fuzz::credentials`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::credentials::check(bytes));
