//! libFuzzer entry point of `dfcp_fuzz::connection::classic`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dfcp_fuzz::connection::classic(data));
