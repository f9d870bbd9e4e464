//! Unknown template ids: however many are requested, lookups in MySQL are limited per second, and users of existing
//! templates are not affected. Lookups are counted in the server's general log.

use coupon::{TemplateId, UserId};
use devstack::{Endpoints, Flavor, OwnDatabase, PlatformOptions, TestServers};
use futures::{StreamExt as _, stream};
use pipeline_tests::{World, until};
use shopper::{Answer, Api, NewTemplate};
use testkit::sql;
use tokio::time::Instant;

/// Unknown ids that a process looks up per second. The default of 500 could not be exceeded on a busy machine.
const PER_SECOND: i64 = 50;

/// Limit of one user's claims per second, in the test of that limit.
const CLAIMS_PER_SECOND: i64 = 50;

/// Upper bound of the platform's own lookups of existing templates meanwhile.
const BESIDE: i64 = 100;

/// Requests of each kind in a wave.
const WAVE: usize = 300;

/// Concurrent requests.
const AT_A_TIME: usize = 64;

/// Starts a platform with its own database, which logs each statement.
pub(crate) async fn start(
    name: &str,
    change: impl FnOnce(PlatformOptions) -> PlatformOptions,
) -> (OwnDatabase, World) {
    let own = OwnDatabase::start(name, Flavor::Mariadb, &[]).await.unwrap();
    let shared = TestServers::shared();
    let endpoints = Endpoints { database_url: own.url(), ..shared.endpoints().clone() };
    let looked_up = PER_SECOND.to_string();
    let change = |options| change(options).with_env("UNKNOWN_TEMPLATES_PER_SECOND", &looked_up);
    let world = World::start_on(&TestServers::at(endpoints), name, change).await;
    sql(&own.url(), "set global log_output = 'TABLE'; set global general_log = ON");
    (own, world)
}

/// Counts the lookups of templates by id in MySQL so far.
fn lookups(own: &OwnDatabase) -> i64 {
    let count = "select count(*) from mysql.general_log where command_type = 'Execute' \
                 and argument like 'select * from coupon_template where id = %'";
    sql(&own.url(), count).trim().parse().unwrap()
}

/// Returns a valid id that does not exist.
fn made_up() -> TemplateId {
    TemplateId(fastrand::i64(1 << 32..))
}

/// Answers to a flood, by kind.
#[derive(Debug, Default, Clone, Copy)]
struct Answers {
    /// 404: there is no such template.
    absent: i64,
    /// 503: unknown for now.
    later: i64,
    /// 429: the user claims too often.
    too_often: i64,
}

impl Answers {
    fn add(&mut self, answer: &Answer) {
        match (answer.status, answer.code().as_deref()) {
            (404, Some("TEMPLATE_NOT_FOUND")) => self.absent += 1,
            (503, Some("OVERLOADED")) if answer.retry_after.is_some() => self.later += 1,
            (429, Some("RATE_LIMITED")) => self.too_often += 1,
            _ => panic!("a made-up template is answered {answer:?}"),
        }
    }
}

/// Opens pages of unknown templates, and makes as many users claim from others.
async fn wave(api: &Api, answers: &mut Answers) {
    let pages = stream::iter(0..WAVE).map(async |_| api.shop(made_up(), None).await.unwrap());
    let claims = stream::iter(1..=WAVE).map(async |user| {
        let shopper = api.shopper(UserId(i64::try_from(user).unwrap())).unwrap();
        shopper.claim(made_up(), Some("key"), 1).await.unwrap()
    });
    let (pages, claims) = tokio::join!(
        pages.buffer_unordered(AT_A_TIME).collect::<Vec<_>>(),
        claims.buffer_unordered(AT_A_TIME).collect::<Vec<_>>(),
    );
    pages.iter().chain(&claims).for_each(|answer| answers.add(answer));
}

#[tokio::test]
async fn made_up_ids_of_many_cost_mysql_a_bounded_number_of_statements_a_second() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let (own, world) = start("unknown-ids-of-many", two).await;
    let known = world.template(100, |new| new).await;
    // This is not the process that published it.
    let api = &world.apis[1];
    let status = async |template| api.shop(template, None).await.unwrap().status;
    until(async || status(known).await, |status| *status == 200).await;

    let before = lookups(&own);
    let began = Instant::now();
    let mut answers = Answers::default();
    let waves = async || {
        wave(api, &mut answers).await;
        answers.later
    };
    until(waves, |later| *later > 0).await;
    // An existing template is served meanwhile, and a new one becomes known by its topic.
    let shopper = api.shopper(UserId(1)).unwrap();
    let (claimed, ()) = tokio::join!(shopper.claim(known, None, 1), wave(api, &mut answers));
    assert_eq!(claimed.unwrap().status, 201);
    let new = world.template(100, |new| new).await;
    let seen = async || {
        wave(api, &mut answers).await;
        status(new).await
    };
    until(seen, |status| *status == 200).await;
    let seconds = began.elapsed().as_secs() + 1;
    let asked = lookups(&own) - before;
    println!("{answers:?} within {seconds} s, {asked} statements");
    let most = PER_SECOND * (i64::try_from(seconds).unwrap() + 1) + BESIDE;
    assert!(asked <= most, "{asked} statements are more than {most}");
    assert!(asked <= answers.absent + BESIDE, "an answer to come back later cost a statement");
    assert_eq!(answers.too_often, 0);

    assert_eq!(world.count(known).await.all(), 1);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn made_up_ids_of_one_user_cost_no_more_than_the_user_may_claim() {
    let (own, world) = start("unknown-ids-of-one", |options| {
        options
            .with_env("CLAIMS_PER_USER_SECOND", &CLAIMS_PER_SECOND.to_string())
            .with_env("CLAIMS_PER_USER_MINUTE", "0")
    })
    .await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let before = lookups(&own);
    let began = Instant::now();
    let claims = stream::iter(0..2 * WAVE)
        .map(async |_| shopper.claim(made_up(), Some("key"), 1).await.unwrap())
        .buffer_unordered(AT_A_TIME);
    let mut answers = Answers::default();
    claims.collect::<Vec<_>>().await.iter().for_each(|answer| answers.add(answer));
    let seconds = i64::try_from(began.elapsed().as_secs()).unwrap() + 1;
    let asked = lookups(&own) - before;
    println!("{answers:?} within {seconds} s, {asked} statements");
    assert!(
        answers.too_often > 0 && answers.absent <= CLAIMS_PER_SECOND * (seconds + 1),
        "{answers:?}"
    );
    assert!(asked <= answers.absent + BESIDE, "{asked} statements for {answers:?}");
    world.end().await;
}

#[tokio::test]
async fn one_unknown_id_is_one_statement_a_second_however_many_ask_for_it() {
    let (own, world) = start("one-unknown-id", |options| options).await;
    let draft = NewTemplate::simple("A draft", 5, world.clock.now(), chrono::TimeDelta::hours(1));
    let draft = world.api().create(&draft).await.unwrap().id;
    let api = world.api();
    let before = lookups(&own);
    let began = Instant::now();
    let pages = stream::iter(0..WAVE)
        .map(async |_| api.shop(draft, None).await.unwrap())
        .buffer_unordered(AT_A_TIME);
    let mut answers = Answers::default();
    pages.collect::<Vec<_>>().await.iter().for_each(|answer| answers.add(answer));
    assert_eq!(answers.absent, i64::try_from(WAVE).unwrap(), "{answers:?}");
    // Four requests may look it up before the first has its answer.
    let most = 4 * (i64::try_from(began.elapsed().as_secs()).unwrap() + 1);
    let asked = lookups(&own) - before;
    println!("{asked} statements");
    assert!((1..=most).contains(&asked), "{asked} statements are more than {most}");
    world.end().await;
}
