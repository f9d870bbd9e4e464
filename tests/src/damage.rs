//! What may happen to a user's view in Redis: keys and fields that go, change their type, or hold what nobody wrote.
//!
//! Each of them is met, at the latest when the user's changes come again and the list is read. What looks like a
//! right view and is none can only be met by somebody who looks at MySQL too; the verifier's own tests have that.

use coupon::UserId;
use fastrand::Rng;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::World;

/// Kinds of damage.
pub const KINDS: usize = 14;

/// Bytes that an answer to one of our commands may have.
const ANSWER_MAX: usize = 4_096;

/// Damages something of a user's view, if there is one. Answers the kind, if it was hit.
pub async fn damage(world: &World, rng: &mut Rng, user: UserId, another: UserId) -> Option<usize> {
    let keys = |user: UserId| {
        let prefix = &world.scope.key_prefix;
        ["list", "coupons"].map(|key| format!("{prefix}view:1:{{{user}}}:{key}"))
    };
    let ([list, coupons], [their_list, their_coupons]) = (keys(user), keys(another));
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
        // Somebody else's whole view under this user's names.
        _ => vec![
            format!("COPY {their_list} {list} REPLACE"),
            format!("COPY {their_coupons} {coupons} REPLACE"),
        ],
    };
    let mut is_hit = false;
    for command in commands {
        let said = send(world, &command).await?;
        is_hit |= said.starts_with(":1") || said.starts_with(":2") || said.starts_with("+OK");
        // Fields that were there, and have another value now.
        is_hit |= said.starts_with(":0") && (command.starts_with("HSET") || kind == 10);
    }
    is_hit.then_some(kind)
}

/// Sends a command as a plain line; absent: Redis is away.
async fn send(world: &World, command: &str) -> Option<String> {
    let url = &world.scope.endpoints.view_redis_url;
    let mut redis = TcpStream::connect(url.trim_start_matches("redis://")).await.ok()?;
    redis.write_all(format!("{command}\r\n").as_bytes()).await.ok()?;
    let mut answer = vec![0; ANSWER_MAX];
    let length = redis.read(&mut answer).await.ok().filter(|length| *length > 0)?;
    Some(String::from_utf8_lossy(&answer[..length]).into_owned())
}
