//! Shards of expiry: the parts into which workers divide the deadline index.
//!
//! A coupon's shard is the hash of its user's id modulo [`EXPIRY_SHARDS`], with the hash that Kafka's clients use for
//! keys. So ids whose low bits hardly differ, as many id generators make them, are spread evenly. Where a topic's
//! number of partitions divides 64, all users of a shard are in one partition (the shard modulo the number of
//! partitions), so changes for coupons that end together are published together, in few large batches.

use crate::{TemplateId, UserId};

/// Number of shards, and so the largest number of workers that can share expiry. Stored rows depend on it: it never
/// changes.
pub const EXPIRY_SHARDS: i64 = 64;

pub fn expiry_shards() -> impl Iterator<Item = u8> {
    (0..EXPIRY_SHARDS).filter_map(|shard| u8::try_from(shard).ok())
}

/// Returns the shard for a user's new coupons. Each stored row keeps its own.
pub fn expiry_shard(user: UserId) -> u8 {
    u8::try_from(user_hash(user) % EXPIRY_SHARDS).unwrap_or_default()
}

/// Returns the partition of a message with this key in a topic of `partitions` partitions; 0 if there are none.
pub fn partition_of_key(key: &[u8], partitions: i32) -> i32 {
    i32::try_from(key_hash(key) % i64::from(partitions.max(1))).unwrap_or_default()
}

/// Returns the partition with a user's changes in a topic of `partitions` partitions; 0 if there are none.
pub fn partition_of(user: UserId, partitions: i32) -> i32 {
    partition_of_key(user.to_string().as_bytes(), partitions)
}

/// Returns the partition with a template's messages in a topic of `partitions` partitions that is keyed by template; 0
/// if there are none.
pub fn partition_of_template(template: TemplateId, partitions: i32) -> i32 {
    partition_of_key(template.to_string().as_bytes(), partitions)
}

fn user_hash(user: UserId) -> i64 {
    key_hash(user.to_string().as_bytes())
}

/// Like Kafka, clears the sign bit rather than negating.
fn key_hash(key: &[u8]) -> i64 {
    i64::from(murmur2(key) & 0x7fff_ffff)
}

/// `MurmurHash2`, 32 bits, with the seed of Kafka's clients (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(key: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // A key is a few digits long; the length is hashed modulo 2^32.
    let mut hash = SEED ^ (key.len() as u32);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (word ^ (word >> R)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| (tail << 8) | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Kafka's own tests (`UtilsTest.testMurmur2`).
    #[test]
    fn the_hash_is_the_one_of_kafkas_clients() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    /// Ids of a plain counter, and of generators that leave the low bits unused.
    #[test]
    fn users_are_spread_evenly_whatever_their_ids_are_made_of() {
        const USERS: i64 = 64_000;
        for (from, step) in [(1, 1), (1 << 40, 4_096), (7, 64), (i64::MAX - (USERS << 22), 1 << 22)]
        {
            let mut users = vec![0; 64];
            for n in 0..USERS {
                users[usize::from(expiry_shard(UserId(from + n * step)))] += 1;
            }
            let least = users.iter().min().unwrap();
            let most = users.iter().max().unwrap();
            assert!(*least > 800 && *most < 1_200, "{from} by {step}: {users:?}");
        }
    }
}
