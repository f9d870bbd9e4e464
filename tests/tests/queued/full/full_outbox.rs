//! An outbox that is full refuses claims and changes nothing.

use pipeline_tests::{
    World,
    promises::{Ends, Promises},
};
use redis_gate::OUTBOX_MAX;

use crate::queued::{
    KEY, accepted, after_gate, assert_sold, gate_command, gate_key, shopper, two_apis,
};

/// Fills a stream up to a length, in one step.
const FILL: &str = "for i = redis.call('XLEN', KEYS[1]) + 1, tonumber(ARGV[1]) do \
                    redis.call('XADD', KEYS[1], '*', 'filler', i) end";

#[tokio::test]
async fn a_full_outbox_refuses_claims_and_changes_nothing() {
    let mut world = World::start_queued_with("full outbox", two_apis).await;
    let template = world.template(10, after_gate).await;
    let mut promises = Promises::default();
    world.platform.relay.kill().unwrap();
    let outbox = gate_key(&world, template, "outbox");
    gate_command(&world, &["EVAL", FILL, "1", &outbox, &OUTBOX_MAX.to_string()]).await;
    let before = world.sources.gate.meta(template).await.unwrap().unwrap();
    for api in 0..2 {
        let refused = promises.claim(&shopper(&world, api, 1), template, Some(KEY), 1).await;
        let code = refused.code();
        assert_eq!((refused.status, code.as_deref()), (503, Some("OVERLOADED")), "{refused:?}");
        assert!(refused.retry_after.is_some(), "{refused:?}");
        // No server fails, so the alert about servers leaves these out.
        let counted = world.platform.apis[api].metric("api_overloaded_answers_total").await;
        assert_eq!(counted, Some(1.0), "of api {api}");
    }
    let after = world.sources.gate.meta(template).await.unwrap().unwrap();
    assert_eq!(after, before, "neither stock nor users");
    let length = gate_command(&world, &["XLEN", &outbox]).await;
    assert_eq!(length.trim(), format!(":{OUTBOX_MAX}"));

    // No relay has read the entries that filled it.
    gate_command(&world, &["XTRIM", &outbox, "MAXLEN", "0"]).await;
    accepted(&mut promises, &shopper(&world, 0, 1), template).await;
    world.platform.relay.start().await.unwrap();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(1));
    assert_sold(&world, template, 1).await;
    world.end().await;
}
