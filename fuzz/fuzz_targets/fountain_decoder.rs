//! libFuzzer entry point of `dfcp_fuzz::fountain_decoder::run`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dfcp_fuzz::fountain_decoder::run(data));
