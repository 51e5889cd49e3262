//! libFuzzer entry point of `dfcp_fuzz::raptor_decoder::run`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dfcp_fuzz::raptor_decoder::run(data));
