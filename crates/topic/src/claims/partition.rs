//! Which partition of the topic `claims` a template's claims are in.
//!
//! A rebuild waits until the claims of one partition have landed. So all processes must agree on the partition, however
//! their client libraries hash keys. Hence a function of our own. Neither it nor the number of partitions ever changes.

use coupon::TemplateId;

/// The bucket of every claim for now: a template's whole stock is on one Redis slot.
pub const ONLY_BUCKET: u32 = 0;

/// Multipliers and increment of `SplitMix64`, which evenly spreads ids whose low bits hardly differ.
const MIX: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the partition of a template's bucket in a topic of `partitions` partitions; 0 if there are none.
pub fn claims_partition(template: TemplateId, bucket: u32, partitions: i32) -> i32 {
    let hash = mixed(mixed(template.0.cast_unsigned()) ^ u64::from(bucket));
    let partitions = u64::try_from(partitions.max(1)).unwrap_or(1);
    i32::try_from(hash % partitions).unwrap_or_default()
}

/// Returns the key of a message. It does not decide the partition; people and tools read it.
pub(crate) fn claims_key(template: TemplateId, bucket: u32) -> String {
    format!("{template}#{bucket}")
}

/// One step of `SplitMix64`.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(STEP);
    let number = (number ^ (number >> 30)).wrapping_mul(MIX[0]);
    let number = (number ^ (number >> 27)).wrapping_mul(MIX[1]);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These values never change, so that claims queued before an upgrade are found after it.
    #[test]
    fn the_partition_of_a_template_never_changes() {
        for (template, bucket, partitions, partition) in [
            (0, 0, 32, 15),
            (1, 0, 32, 30),
            (2, 0, 32, 20),
            (42, 0, 32, 4),
            (42, 1, 32, 5),
            (2_123_985_067_360_387_072, 0, 32, 0),
            (2_123_985_067_360_387_072, 0, 4, 0),
            (i64::MAX, 0, 32, 30),
            (i64::MAX, 7, 5, 3),
        ] {
            let found = claims_partition(TemplateId(template), bucket, partitions);
            assert_eq!(found, partition, "{template}#{bucket} of {partitions}");
        }
    }

    /// The first outputs of the generator with seed 0, as its author publishes them.
    #[test]
    fn the_hash_is_splitmix64() {
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed(STEP), 0x6e78_9e6a_a1b9_65f4);
    }

    /// Ids of a plain counter, and of generators that leave the low bits unused.
    #[test]
    fn templates_are_spread_evenly_whatever_their_ids_are_made_of() {
        const TEMPLATES: i64 = 32_000;
        for (from, step) in [(1, 1), (1 << 40, 4_096), (7, 64), (1 << 50, 1 << 12)] {
            let mut counts = [0; 32];
            for n in 0..TEMPLATES {
                let partition = claims_partition(TemplateId(from + n * step), ONLY_BUCKET, 32);
                counts[usize::try_from(partition).unwrap()] += 1;
            }
            let least = counts.iter().min().unwrap();
            let most = counts.iter().max().unwrap();
            assert!(*least > 800 && *most < 1_200, "{from} by {step}: {counts:?}");
        }
    }

    #[test]
    fn a_topic_without_partitions_has_the_first_one() {
        assert_eq!(claims_partition(TemplateId(42), 3, 0), 0);
        assert_eq!(claims_partition(TemplateId(42), 3, -1), 0);
    }
}
