//! See `muster_fuzz::yaml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::yaml::check(bytes));
