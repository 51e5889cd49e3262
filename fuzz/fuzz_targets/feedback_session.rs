//! libFuzzer entry point of `dfcp_fuzz::feedback_session::run`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dfcp_fuzz::feedback_session::run(data));
