//! The list of jobs.

use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    desk::{
        another_merchant, get,
        grants::{ended, grant, job_of},
        post, refusal,
    },
    operators::cli::Cli,
};

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn jobs_are_listed_newest_first_in_pages_and_by_state_and_only_a_merchants_own() {
    let world = World::start("list of jobs").await;
    let api = world.api();
    let template = world.template(20, |new| new).await;
    let mut jobs = Vec::new();
    for user in ["1", "2"] {
        let body = json!({ "user_ids": [user], "reason": format!("ticket {user}") });
        let job = job_of(&grant(api, template, user, &body).await);
        ended(api, &job).await;
        jobs.insert(0, job);
    }
    api.turn(template, "pause").await.unwrap();
    let body = json!({ "user_ids": ["3"], "reason": "ticket 3" });
    let waiting = job_of(&grant(api, template, "3", &body).await);
    jobs.insert(0, waiting.clone());

    let all = get(api, "/v1/jobs").await;
    assert_eq!(ids(&all), jobs);
    assert_eq!(all["has_more"], false);
    let first = get(api, "/v1/jobs?limit=2").await;
    assert_eq!((ids(&first), &first["has_more"]), (vec![&*jobs[0], &*jobs[1]], &json!(true)));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = get(api, &format!("/v1/jobs?limit=2&cursor={cursor}")).await;
    assert_eq!((ids(&second), &second["has_more"]), (vec![&*jobs[2]], &json!(false)));
    for (state, wanted) in
        [("running", &jobs[..1]), ("finished", &jobs[1..]), ("cancelling", &[]), ("cancelled", &[])]
    {
        let page = get(api, &format!("/v1/jobs?state={state}")).await;
        assert_eq!(ids(&page), wanted, "{state}");
    }
    let job = &all["data"][0];
    assert_eq!((&job["state"], &job["ended_at"]), (&json!("running"), &Value::Null));
    assert_eq!((&job["rows"], &job["reason"]), (&json!(1), &json!("ticket 3")));

    let foreign = another_merchant(api).await;
    assert_eq!(ids(&get(&foreign, "/v1/jobs").await), Vec::<&str>::new());
    for (query, status, code) in [
        ("state=done", 422, "INVALID_STATUS"),
        ("limit=0", 422, "INVALID_LIMIT"),
        ("cursor=x", 400, "INVALID_CURSOR"),
        ("status=running", 400, "MALFORMED_QUERY"),
    ] {
        let path = format!("/v1/jobs?{query}");
        let answer = api.send(api.operator(Method::GET, &path)).await.unwrap();
        assert_eq!(refusal(&answer), (status, code.to_owned()), "{query}");
    }
    let listed = Cli::of(&world).json("jobs list --state finished --limit 1").await;
    assert_eq!(ids(&listed), [&*jobs[1]]);
    let reason = json!({ "reason": "not needed" });
    assert_eq!(post(api, &format!("/v1/jobs/{waiting}/cancel"), &reason).await.status, 200);
    ended(api, &waiting).await;
    assert_eq!(ids(&get(api, "/v1/jobs?state=cancelled").await), [waiting]);
    world.assert_sound(None).await;
    world.end().await;
}
