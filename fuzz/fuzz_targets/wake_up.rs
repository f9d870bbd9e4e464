#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::run("wake_up", data));
