#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::run("checkpoint_record", data));
