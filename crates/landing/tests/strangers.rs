//! Lookups of somebody else's claim: they are answered like an id that no claim has, and change nothing.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, MerchantId, TemplateId, UserId};
use landing::{
    claims::fate::{Asker, ClaimQuery, Fate, FateError, fate},
    ids::made_at,
    resolver::GRACE,
};
use mysql_store::{fence, look_up::ClaimFate};

use crate::harness::{OPERATOR, Process, TEMPLATE, USER, World, claim};

/// A template that the asker may name.
const OTHER: TemplateId = TemplateId(11);

/// Who has no claim here.
const STRANGERS: [Asker; 2] = [Asker::User(UserId(71)), Asker::Merchant(MerchantId(2))];

/// What a client sees: the id is left out.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    NotFound,
    TemplateNeeded,
    Processing(DateTime<Utc>),
    GivenUp { template: TemplateId, user: UserId, at: DateTime<Utc> },
    TooMany,
    Other(Fate),
}

/// Returns the claim of a user that has landed, and one that was given up in flight.
async fn theirs(world: &World) -> [ClaimId; 2] {
    let process = Process::start(world, "a").await;
    let landed = claim(USER, "a", 1);
    let given_up = claim(UserId(72), "a", 1);
    process.claim(&landed).await;
    let mut connection = world.connection().await;
    let at = landed.claimed_at;
    let template = given_up.template_id;
    let user = given_up.user_id;
    fence::place_held(&mut connection, template, user, given_up.id, at).await.unwrap();
    [landed.id, given_up.id]
}

async fn look(world: &World, asked: ClaimQuery, age: TimeDelta, may_fence: bool) -> Seen {
    let now = made_at(asked.id.0) + age;
    let may_fence = || if may_fence { Ok(()) } else { Err(Duration::ZERO) };
    let fate = match fate(&world.pool, &world.gate, asked, now, may_fence).await {
        Err(FateError::TooMany { .. }) => return Seen::TooMany,
        fate => fate.unwrap(),
    };
    match fate {
        Fate::Never => Seen::NotFound,
        Fate::TemplateNeeded => Seen::TemplateNeeded,
        Fate::Processing { user: None | Some(UserId(71)), at } => Seen::Processing(at),
        // As the api shows it to users.
        Fate::Decided(ClaimFate::GivenUp { .. }) if asked.asker == STRANGERS[0] => Seen::NotFound,
        Fate::Decided(ClaimFate::GivenUp { template_id, user_id, at, .. }) => {
            Seen::GivenUp { template: template_id, user: user_id, at }
        }
        other => Seen::Other(other),
    }
}

#[tokio::test]
async fn somebody_elses_claim_is_answered_like_an_id_that_no_claim_has() {
    let world = World::open("strangers", 10, 1).await;
    world.publish(OTHER, 5, 1).await;
    let theirs = theirs(&world).await;
    let rows = "select cast(sum(crc32(concat_ws(',', template_id, user_id, request_id, id, state))) as signed) \
                from claim where user_id <> 0";
    let before = world.number(rows).await;
    let mut seen = Vec::new();
    for asker in STRANGERS {
        for template in [None, Some(OTHER), Some(TEMPLATE)] {
            for age in [TimeDelta::seconds(5), TimeDelta::seconds(11), TimeDelta::days(1)] {
                for may_fence in [false, true] {
                    // Each is asked for twice: an unknown id is fenced by the first lookup.
                    let unknown = claim(USER, "unknown", 1).id;
                    let answers = async |id| {
                        let asked = ClaimQuery { id, template, asker };
                        let first = look(&world, asked, age, may_fence).await;
                        (first, look(&world, asked, age, may_fence).await)
                    };
                    let meant = answers(unknown).await;
                    for id in theirs {
                        let case = format!("{asker:?} {template:?} {age} {may_fence} {id}");
                        assert_eq!(answers(id).await, meant, "{case}");
                    }
                    // Without a right to fence, no look contradicts the answer before it.
                    let asked = ClaimQuery { id: unknown, template, asker };
                    let again = look(&world, asked, age, false).await;
                    let case = format!("{asked:?} {age} {may_fence}: {meant:?}, then {again:?}");
                    assert!([&meant.1, &Seen::TooMany].contains(&&again), "{case}");
                    let theirs = ClaimQuery { id: theirs[0], ..asked };
                    assert_eq!(look(&world, theirs, age, false).await, again);
                    seen.push(meant.1);
                }
            }
        }
    }
    let grace = TimeDelta::from_std(GRACE).unwrap();
    let at = made_at(theirs[0].0) + grace;
    assert!(seen.contains(&Seen::GivenUp { template: OTHER, user: UserId(0), at }), "{seen:#?}");
    assert!(seen.contains(&Seen::TooMany));
    assert!(seen.contains(&Seen::NotFound) && seen.contains(&Seen::TemplateNeeded));
    assert_eq!(world.number(rows).await, before, "the claims and their fences are as they were");
    // Their owners still see what became of them.
    for (asker, id) in
        [(Asker::User(USER), theirs[0]), (OPERATOR, theirs[0]), (OPERATOR, theirs[1])]
    {
        let asked = ClaimQuery { id, template: Some(TEMPLATE), asker };
        let fate = fate(&world.pool, &world.gate, asked, at, || Err(Duration::ZERO)).await.unwrap();
        let is_told = match &fate {
            Fate::Decided(ClaimFate::Landed(landed)) => landed.id == theirs[0],
            Fate::Decided(ClaimFate::GivenUp { user_id, .. }) => *user_id == UserId(72),
            _ => false,
        };
        assert!(is_told, "{fate:?}");
    }
}
