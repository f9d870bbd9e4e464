#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::run("view_key", data));
