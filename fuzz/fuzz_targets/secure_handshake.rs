//! libFuzzer entry point of `dfcp_fuzz::secure_handshake::run`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dfcp_fuzz::secure_handshake::run(data));
