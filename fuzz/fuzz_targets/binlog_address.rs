#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::run("binlog_address", data));
