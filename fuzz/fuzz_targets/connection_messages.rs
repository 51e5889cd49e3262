//! libFuzzer entry point of `dfcp_fuzz::connection::messages`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dfcp_fuzz::connection::messages(data));
