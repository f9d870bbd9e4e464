//! Damage to a user's view in Redis: keys and fields that disappear, change their type, or contain text that no
//! script writes.
//!
//! Every kind here is detected at the latest when the user's changes are delivered again and the list is read.
//! Damage that looks like a valid view can only be detected by comparing it with MySQL; the verifier's own
//! tests cover that.

use coupon::UserId;
use fastrand::Rng;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::World;

pub const KINDS: usize = 14;

/// Longest response to our commands, in bytes.
const ANSWER_MAX: usize = 4_096;

/// Damages a user's view at random, if it exists. Returns the kind of damage if it took effect.
pub async fn damage(world: &World, rng: &mut Rng, user: UserId, another: UserId) -> Option<usize> {
    let keys = |user: UserId| {
        let prefix = &world.scope.key_prefix;
        ["list", "coupons"].map(|key| format!("{prefix}view:1:{{{user}}}:{key}"))
    };
    let [list, coupons] = keys(user);
    let [their_list, their_coupons] = keys(another);
    let view = world.sources.view.contents(user).await.ok()?;
    let member = rng.choice(view.list.keys()).cloned();
    let known = rng.choice(view.coupons.keys()).cloned();
    let listed = member.as_deref().and_then(|member| member.rsplit_once('_')).map(|(_, id)| id);
    let kind = rng.usize(0..KINDS);
    let commands = match kind {
        0 => vec![format!("DEL {list}")],
        1 => vec![format!("DEL {coupons}")],
        2 => vec![format!("DEL {list} {coupons}")],
        3 => vec![format!("HSET {coupons} {} garbage", known?)],
        4 => vec![format!("HSET {coupons} {} 1|0|1|1|x|1|0|4000000000000", listed?)],
        5 => vec![format!("HDEL {coupons} {}", listed?)],
        6 => vec![format!("HSET {coupons} ~token garbage")],
        7 => vec![format!("HSET {coupons} ~state x")],
        8 => vec![format!("ZADD {list} 5 garbage")],
        9 => vec![format!("ZREM {list} {}", member?)],
        10 => vec![format!("ZADD {list} XX 1.5 {}", member?)],
        11 => vec![format!("DEL {list}"), format!("SET {list} text")],
        12 => vec![format!("PEXPIRE {coupons} 1")],
        // Another user's whole view under this user's keys.
        _ => vec![
            format!("COPY {their_list} {list} REPLACE"),
            format!("COPY {their_coupons} {coupons} REPLACE"),
        ],
    };
    let mut is_hit = false;
    for command in commands {
        let said = send(world, &command).await?;
        is_hit |= said.starts_with(":1") || said.starts_with(":2") || said.starts_with("+OK");
        // Existing fields that now have another value.
        is_hit |= said.starts_with(":0") && (command.starts_with("HSET") || kind == 10);
    }
    is_hit.then_some(kind)
}

/// Overwrites a field of a user's view with text that no script writes.
///
/// # Panics
/// Redis is unreachable, or the view has no such field.
pub async fn spoil_field(world: &World, user: UserId, field: &str) {
    let key = format!("{}view:1:{{{user}}}:coupons", world.scope.key_prefix);
    let answer = send(world, &format!("HSET {key} {field} garbage")).await.unwrap();
    assert!(answer.starts_with(":0"), "the view had no {field}: {answer}");
}

/// Sends an inline command to the view's Redis; returns `None` if that is unreachable.
pub async fn send(world: &World, command: &str) -> Option<String> {
    let url = &world.scope.endpoints.view_redis_url;
    let mut redis = TcpStream::connect(url.trim_start_matches("redis://")).await.ok()?;
    redis.write_all(format!("{command}\r\n").as_bytes()).await.ok()?;
    let mut answer = vec![0; ANSWER_MAX];
    let length = redis.read(&mut answer).await.ok().filter(|length| *length > 0)?;
    Some(String::from_utf8_lossy(&answer[..length]).into_owned())
}
