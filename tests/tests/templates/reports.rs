//! Reports and time series: what is counted is what clients were answered, also when messages come twice or the broker
//! is away.

use std::{collections::BTreeMap, fs};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{TemplateId, UserId, limit::HOLD_MS_MIN};
use devstack::{Flavor, OwnBroker, PlatformOptions, TestServers};
use mysql_store::verify::{self, CouponCounts};
use pipeline_tests::{World, replay, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate, Run, Wish};
use topic::{TopicLayout, TopicNames, ensure_topics};

use crate::operators::cli::Cli;

const STOCK: i64 = 40;

async fn get(api: &Api, path: &str) -> Answer {
    api.send(api.operator(Method::GET, path)).await.unwrap()
}

async fn report(world: &World, template: TemplateId) -> Value {
    let answer = get(world.api(), &format!("/v1/templates/{template}/report")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json().unwrap()
}

/// Polls the report until it has as many requests; returns it.
async fn until_counted(world: &World, template: TemplateId, requests: usize) -> Value {
    let look = async || report(world, template).await;
    until(look, |report| report["answers"]["requests"] == json!(requests)).await
}

/// Counts a crowd's answers, as the report names them.
fn heard(run: &Run) -> (usize, BTreeMap<String, usize>) {
    let mut words = BTreeMap::new();
    for record in &run.history.records {
        let word = match (record.status, record.replayed) {
            (Some(201), false) => "landed",
            (Some(201), true) => "replayed",
            (Some(_), _) => record.code.as_deref().unwrap(),
            (None, _) => panic!("no answer: {record:?}"),
        };
        *words.entry(word.to_owned()).or_default() += 1;
    }
    (run.history.records.len(), words)
}

/// Returns the same counts of a report's or a point's figures.
fn counted(figures: &Value) -> BTreeMap<String, usize> {
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let by_code = ["refused", "unknown"].map(|name| figures[name].as_object().unwrap());
    let by_code = by_code.into_iter().flatten();
    let mut words: BTreeMap<_, _> =
        by_code.map(|(code, count)| (code.clone(), number(count))).collect();
    for word in ["landed", "replayed"] {
        words.insert(word.to_owned(), number(&figures[word]));
    }
    words.retain(|_, count| *count > 0);
    words
}

/// Users of whom some ask twice at once, some again, and too many for the stock.
async fn rush(world: &World, template: TemplateId) -> Run {
    let wish = |user: i64| {
        let wish = Wish::one(template, UserId(user)).with_key(format!("key-{user}"));
        Wish { copies: if user % 10 == 0 { 2 } else { 1 }, again: user % 7 == 0, ..wish }
    };
    let more = (1..=20).map(|user| Wish::one(template, UserId(user)).with_key("another"));
    world.crowd().run((1..=150).map(wish).chain(more).collect()).await.unwrap()
}

async fn by_command(world: &World, template: TemplateId, requests: usize) {
    let cli = Cli::of(world);
    let said = cli.json(&format!("template report {template}")).await;
    assert_eq!(said["answers"]["requests"], json!(requests));
    let said = cli.run(&format!("template report {template}")).await;
    let has = |line: &str| said.out.lines().any(|one| one.starts_with(line));
    assert!(said.code == 0 && said.out.contains('█'), "{said:?}");
    assert!(
        has(&format!("requests        {requests}")) && has("sold out        after"),
        "{said:?}"
    );
    let said = cli.run(&format!("template timeseries {template} --step 60")).await;
    assert!(said.code == 0 && said.out.contains("steps of 60 s"), "{said:?}");
    let later = format!("template timeseries {template} --from 2030-01-01T00:00:00Z");
    let refused = cli.run(&later).await;
    assert!(refused.code == 1 && refused.err.contains("(INVALID_SPAN)"), "{refused:?}");
}

/// Another merchant's key finds neither.
async fn assert_of_its_merchant(world: &World, template: TemplateId) {
    let post = |path: &str, body: Value| {
        let request = world.api().operator(Method::POST, path).json(&body);
        async { world.api().send(request).await.unwrap().json::<Value>().unwrap() }
    };
    let merchant = post("/v1/merchants", json!({ "name": "Another" })).await;
    let key = json!({ "name": "k", "scopes": ["admin"], "merchant_id": merchant["id"] });
    let key = post("/v1/api-keys", key).await;
    let stranger = world.api().with_operator_key(key["key"].as_str().unwrap());
    for what in ["report", "timeseries"] {
        let answer = get(&stranger, &format!("/v1/templates/{template}/{what}")).await;
        let code = answer.code().unwrap_or_default();
        assert_eq!((answer.status, code.as_str()), (404, "TEMPLATE_NOT_FOUND"), "{what}");
    }
}

#[tokio::test]
async fn a_report_tells_money_use_and_expiry_and_of_a_span_only_its_answers() {
    money(Flavor::Mariadb).await;
}

async fn money(flavor: Flavor) {
    let started = World::start_on_flavor(flavor, "report money", |options| options).await;
    let Some(world) = started else { return };
    let template = world.template(9, |new| NewTemplate { valid_for_ms: 6_000, ..new }).await;
    let mut coupons = Vec::new();
    for user in 1..=4 {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let claimed = shopper.claim(template, None, 1).await.unwrap().json::<Claimed>().unwrap();
        coupons.push(claimed.coupons[0].id.to_string());
    }
    let post = async |path: String, body: Value| -> Value {
        let answer = world.api().operator(Method::POST, &path).json(&body);
        let answer = world.api().send(answer).await.unwrap();
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer.json().unwrap()
    };
    let order = |name: &str, coupon: &str| json!({ "order_ref": name, "amount": 2_000, "currency": "EUR", "coupons": [coupon] });
    let redeemed = post("/v1/redemptions".to_owned(), order("A", &coupons[0])).await;
    assert!(redeemed["discount"].as_i64().unwrap() > 0, "{redeemed}");
    // A redemption that is rolled back no longer counts, and a replaced coupon and its replacement count once.
    post("/v1/redemptions".to_owned(), order("B", &coupons[1])).await;
    post("/v1/redemptions/B/rollback".to_owned(), json!({ "reason": "r" })).await;
    post(format!("/v1/coupons/{}/replace", coupons[2]), json!({ "reason": "r" })).await;
    world.until(template, |counts| counts.expired == 3).await;
    let told = until_counted(&world, template, 4).await;
    let money = json!({
        "redeemed": 1, "discount": redeemed["discount"], "revenue": redeemed["left_to_pay"],
        "currency": "EUR", "discount_text": "€5.00", "revenue_text": "€15.00",
        "all_counted": true,
    });
    assert_eq!(told["redemption"], money);
    let counted = json!({
        "counted": 5, "all_counted": true, "unused": 0, "used": 1, "expired": 3, "cancelled": 1,
        "held": 0, "lapsed": 0, "others": 0, "used_percent": 25.0, "expired_percent": 75.0,
    });
    assert_eq!(told["coupons"], counted);
    // The end of a span is exclusive; what MySQL knows is of the whole life. A span consists of whole steps, here of at
    // most five minutes.
    let starts_at: DateTime<Utc> = told["claim_starts_at"].as_str().unwrap().parse().unwrap();
    let to = (starts_at - TimeDelta::minutes(6)).format("%FT%TZ");
    let from = told["from"].as_str().unwrap();
    let path = format!("/v1/templates/{template}/report?from={from}&to={to}");
    let before: Value = get(world.api(), &path).await.json().unwrap();
    assert_eq!(before["answers"]["requests"], 0, "{before}");
    assert_eq!((&before["redemption"], &before["coupons"]), (&money, &counted));
    let span = |report: &Value| {
        let time = |name: &str| report[name].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
        (time("from"), time("to"))
    };
    assert!(span(&before).1 < span(&told).1 && span(&before).0 == span(&told).0, "{before}");
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_report_shows_the_sale_from_its_first_claim_on_and_a_span_that_is_asked_for_whole() {
    let world = World::start("report course").await;
    let days = |new| NewTemplate { claim_ends_at: world.clock.now() + TimeDelta::days(9), ..new };
    let template = world.template(9, days).await;
    let before = world.clock.now();
    for user in 1..=3 {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
    }
    let after = world.clock.now();
    let told = until_counted(&world, template, 3).await;
    let course = |report: &Value| {
        let course = &report["answers"]["course"];
        let requests = course["requests"].as_array().unwrap().iter().filter_map(Value::as_u64);
        let from: DateTime<Utc> = course["from"].as_str().unwrap().parse().unwrap();
        (from, course["step_seconds"].as_i64().unwrap(), requests.collect::<Vec<u64>>())
    };
    let (from, step, requests) = course(&told);
    assert!(from >= before - TimeDelta::seconds(step) && from <= after, "{told}");
    assert!(requests.first() > Some(&0) && requests.last() > Some(&0), "{told}");
    assert_eq!(requests.iter().sum::<u64>(), 3);
    assert_eq!(told["answers"]["unknown"], json!({}));
    let path = format!("/v1/templates/{template}/report?from={}", told["from"].as_str().unwrap());
    let asked: Value = get(world.api(), &path).await.json().unwrap();
    let (from, _, requests) = course(&asked);
    assert_eq!(from, asked["from"].as_str().unwrap().parse::<DateTime<Utc>>().unwrap());
    assert_eq!((requests[0], requests.iter().sum::<u64>()), (0, 3), "an hour before the window");
    let said = Cli::of(&world).run(&format!("template report {template}")).await;
    assert!(said.out.contains(&format!("a bar is {step} s")), "{said:?}");
    assert_eq!(world.count(template).await.all(), 3);
    world.end().await;
}

#[tokio::test]
async fn a_report_counts_held_lapsed_and_cancelled_coupons_as_mysql_does() {
    let world = World::start("report of holds").await;
    let api = world.api();
    let cli = Cli::of(&world);
    let long = world.template(9, |new| new.held_for(TimeDelta::hours(1))).await;
    let short = world.template(9, |new| new.held_for(TimeDelta::milliseconds(HOLD_MS_MIN))).await;
    let claim = async |template, user| {
        let shopper = api.shopper(UserId(user)).unwrap();
        let answer = shopper.claim(template, Some("key"), 1).await.unwrap();
        answer.json::<Claimed>().unwrap().id
    };
    for user in 1..=4 {
        claim(long, user).await;
    }
    for (user, call) in [(5, "confirm"), (6, "confirm"), (7, "cancel")] {
        let id = claim(long, user).await;
        let answer = match call {
            "confirm" => api.confirm(id, &format!("pay-{user}"), None).await,
            _ => api.cancel(id, "r", None).await,
        };
        assert_eq!(answer.unwrap().status, 200);
    }
    claim(short, 1).await;
    world.until(short, |counts| counts.lapsed == 1).await;
    for (template, wanted) in [(long, [2, 0, 0, 1, 4, 0]), (short, [0, 0, 0, 0, 0, 1])] {
        let counts = world.count(template).await;
        let CouponCounts { unused, used, expired, cancelled, held, lapsed, .. } = counts;
        assert_eq!([unused, used, expired, cancelled, held, lapsed], wanted);
        let told = &report(&world, template).await["coupons"];
        let names = ["unused", "used", "expired", "cancelled", "held", "lapsed"];
        assert_eq!(names.map(|name| told[name].as_i64().unwrap()), wanted, "{told}");
        assert_eq!((&told["counted"], &told["others"]), (&json!(counts.all()), &json!(0)));
    }
    let said = cli.run(&format!("template report {long}")).await;
    let lines = "expired         0, 0.0 %\nheld            4\ncancelled       1\nredeemed ";
    assert!(said.out.contains(lines), "{said:?}");
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn a_report_on_mysql_tells_money_use_and_expiry_and_of_a_span_only_its_answers() {
        money(Flavor::Mysql).await;
    }

    #[tokio::test]
    async fn a_report_counts_what_a_crowd_was_answered_and_a_message_that_comes_again_counts_once()
    {
        let two = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("report", two).await;
        let template = world.template(STOCK, |new| new).await;
        let other = world.template(STOCK, |new| new).await;
        let run = rush(&world, template).await;
        let (requests, words) = heard(&run);
        assert!(
            words["landed"] == 40 && words["SOLD_OUT"] > 100 && words["replayed"] > 0,
            "{words:?}"
        );
        let winner = run.history.records.iter().find(|record| record.status == Some(201)).unwrap();
        let claimed: Claimed = serde_json::from_str(winner.body.as_ref().unwrap()).unwrap();
        let shopper = world.api().shopper(winner.user).unwrap();
        let used = shopper.use_coupon(claimed.coupons[0].id, "order").await.unwrap();
        assert_eq!(used.status, 200, "{}", used.body);

        let report_of_all = until_counted(&world, template, requests).await;
        let answers = &report_of_all["answers"];
        assert_eq!(counted(answers), words, "{report_of_all}");
        assert_eq!(report_of_all["complete"], true);
        let peak = answers["peak_per_second"].as_u64().unwrap();
        assert!(peak > 0 && peak <= requests as u64 && answers["peak_at"].is_string(), "{answers}");
        assert!(answers["sold_out_after_ms"].as_i64().unwrap() < 60_000, "{answers}");
        assert!(answers["p50_ms"].as_u64() <= answers["p99_ms"].as_u64(), "{answers}");
        let course = answers["course"]["requests"].as_array().unwrap();
        let shown = course.iter().filter_map(Value::as_u64).sum::<u64>();
        assert!(shown <= requests as u64 && shown * 100 >= requests as u64 * 98, "{answers}");
        let stock = json!({ "total": STOCK, "landed": STOCK, "left": 0 });
        assert_eq!(report_of_all["stock"], stock);
        let coupons = &report_of_all["coupons"];
        assert_eq!((&coupons["counted"], &coupons["used"]), (&json!(40), &json!(1)), "{coupons}");
        assert_eq!(
            (&coupons["used_percent"], &coupons["all_counted"]),
            (&json!(2.5), &json!(true))
        );
        assert_eq!(report_of_all["redemption"]["currency"], "EUR");

        // Steps of a second add up to the same, and the busiest one is the peak.
        let from = report_of_all["claim_starts_at"].as_str().unwrap();
        let path = format!("/v1/templates/{template}/timeseries?from={from}&step=1");
        let series: Value = get(world.api(), &path).await.json().unwrap();
        assert_eq!((&series["step_seconds"], &series["complete"]), (&json!(1), &json!(true)));
        let points = series["points"].as_array().unwrap();
        let mut sums: BTreeMap<String, usize> = BTreeMap::new();
        for (word, count) in points.iter().flat_map(counted) {
            *sums.entry(word).or_default() += count;
        }
        assert_eq!(sums, words);
        let most = points.iter().filter_map(|point| point["requests"].as_u64()).max();
        assert_eq!(most, Some(peak));
        let quiet = report(&world, other).await;
        assert_eq!(
            (&quiet["answers"]["requests"], &quiet["answers"]["peak_at"]),
            (&json!(0), &Value::Null)
        );

        let topic = world.sources.topics.claim_stats();
        let messages = replay::published(&world.sources.brokers, &topic).await.unwrap();
        assert!(!messages.is_empty());
        replay::deliver(&world.sources.brokers, &messages).await.unwrap();
        assert_eq!(report(&world, template).await["answers"]["requests"], json!(requests));
        by_command(&world, template, requests).await;
        assert_of_its_merchant(&world, template).await;
        world.assert_sound(Some(&run.history)).await;
        world.end().await;
    }

    #[tokio::test]
    async fn while_the_broker_is_away_claims_are_answered_and_counted_later() {
        let mut broker = OwnBroker::start("claim-stats").await.unwrap();
        let scope = TestServers::shared().scope("stats broker");
        let names = TopicNames::new(scope.topic_prefix.clone());
        let layout = TopicLayout { partitions: 4, replication: 1 };
        ensure_topics(&broker.brokers(), &names, &layout).await.unwrap();
        verify::copy_schema(&scope.endpoints.database_url).await.unwrap();
        // Only the api uses that broker.
        let brokers = broker.brokers();
        let set =
            |platform: &mut devstack::Platform| platform.apis[0].set_env("KAFKA_BROKERS", &brokers);
        let world = World::start_as(scope, set).await;
        let template = world.template(STOCK, |new| NewTemplate { per_user_limit: 0, ..new }).await;
        let shopper = world.api().shopper(UserId(1)).unwrap();
        let claim = async |number: usize| {
            let answer = shopper.claim(template, Some(&format!("key-{number}")), 1).await.unwrap();
            assert_eq!(answer.status, 201, "{answer:?}");
        };
        claim(0).await;
        until_counted(&world, template, 1).await;
        broker.server.pause().unwrap();
        for number in 1..=5 {
            claim(number).await;
        }
        let series = get(world.api(), &format!("/v1/templates/{template}/timeseries")).await;
        let code = series.code().unwrap_or_default();
        assert_eq!((series.status, code.as_str()), (503, "STATS_UNAVAILABLE"), "{series:?}");
        assert!(series.retry_after.is_some());
        let partial = report(&world, template).await;
        assert_eq!((&partial["answers"], &partial["complete"]), (&Value::Null, &json!(false)));
        assert_eq!(partial["known_to"], Value::Null);
        assert_eq!(partial["stock"]["landed"], 6, "what MySQL knows is said");
        broker.server.resume().unwrap();
        let whole = until_counted(&world, template, 6).await;
        assert_eq!((&whole["complete"], &whole["answers"]["landed"]), (&json!(true), &json!(6)));
        let fate = async |fate: &str| {
            let metric = format!("api_claim_stats_answers_total{{fate=\"{fate}\"}}");
            world.platform.apis[0].metric(&metric).await
        };
        // An acknowledgement may come later than the message is read.
        until(async || fate("published").await, |published| *published == Some(6.0)).await;
        assert_eq!((fate("others").await, fate("lost").await), (Some(0.0), Some(0.0)));
        let log = fs::read_to_string(world.platform.apis[0].log()).unwrap();
        let said = log.lines().filter(|line| line.contains("statistics of claims cannot be read"));
        assert_eq!(said.count(), 1, "however many ask: {log}");
        world.end().await;
    }

    #[test]
    #[ignore = "only measures; ./dev soak what_counting_an_answer_costs_a_claim"]
    fn what_counting_an_answer_costs_a_claim() {
        const ANSWERS: u32 = 2_000_000;
        for threads in [1, 2, 8] {
            let each = api::price::of_counting(threads, ANSWERS);
            println!("{threads} threads: {} ns for each answer", each.as_nanos());
        }
    }
}
