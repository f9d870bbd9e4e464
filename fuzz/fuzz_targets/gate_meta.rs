#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::run("gate_meta", data));
