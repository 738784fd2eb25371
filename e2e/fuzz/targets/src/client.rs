//! See `muster_fuzz::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::client::check(bytes));
