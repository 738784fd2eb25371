//! See `muster_fuzz::kubeconfig`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_fuzz::kubeconfig::check(bytes));
