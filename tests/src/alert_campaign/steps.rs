//! The steps of the campaign, and the alerts that each provokes: all of ops/alerts.yaml, each in one step.

/// A step and its alerts.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) provokes: &'static [&'static str],
}

/// The steps, in their order: each finds the platform whole again. No api may have been away before the first one.
pub(super) const STEPS: [Step; 29] = [
    Step { name: "abandoned_admission", provokes: &["AdmissionsAbandoned"] },
    Step {
        name: "kafka_away",
        provokes: &[
            "ServerAway",
            "ReadinessLost",
            "LagUnknown",
            "ClaimAppendsFail",
            "OutboxNotRelayed",
            "QueuedClaimsLate",
            "QueuedClaimsUnknown",
            "RelayRetries",
            "TailerBehind",
            "TailerBinlogExpires",
            "ClaimStatsLost",
        ],
    },
    Step {
        name: "processes_away",
        provokes: &["ProcessDown", "TailerNoLeader", "ExpiryShardsUnowned"],
    },
    Step { name: "wrong_clock", provokes: &["ClocksApart", "ExpiryStopped"] },
    Step {
        name: "foreign_messages",
        provokes: &[
            "ConsumerDeadLetters",
            "MovementsUnreadable",
            "ExpiryUnreadable",
            "QueuedClaimsFail",
        ],
    },
    Step { name: "bad_payments", provokes: &["PaymentsFail", "PaymentsDelayed"] },
    Step { name: "late_holds", provokes: &["PaymentsTooLate", "EndsLate"] },
    Step { name: "locked_hold", provokes: &["HoldsStayBehind", "ExpiryLate"] },
    Step { name: "lost_wake_up", provokes: &["ExpirySweepFinds"] },
    Step {
        name: "wrong_gates",
        provokes: &[
            "GateDisagreesWithMysql",
            "GateUnreadable",
            "QueuedGateWrong",
            "GateHoldsTooLittle",
        ],
    },
    Step { name: "refused_rows", provokes: &["LandingRefused", "QueuedLandingRefused"] },
    Step {
        name: "held_claims",
        provokes: &["ClaimsShed", "LandingQueued", "LandingSlow", "SettlingBehind"],
    },
    Step { name: "locked_table", provokes: &["ClaimsStuck", "ClaimLanderBehind"] },
    Step { name: "full_outbox", provokes: &["OutboxFull"] },
    Step { name: "names_taken", provokes: &["RelayWorkersMissing"] },
    Step { name: "draining_gate", provokes: &["GateDrains"] },
    Step { name: "old_job", provokes: &["JobStuck"] },
    Step { name: "damaged_view", provokes: &["ViewDamaged"] },
    Step { name: "forgetful_view", provokes: &["ViewLosesWrites"] },
    Step { name: "cold_views", provokes: &["ViewTooSmall"] },
    Step { name: "view_away", provokes: &["ConsumerBehind", "ConsumerRetries"] },
    Step { name: "forgotten_messages", provokes: &["ConsumerGap"] },
    Step { name: "broken_binlog_streams", provokes: &["TailerReconnects"] },
    Step { name: "too_long_row", provokes: &["TailerDeadLetters"] },
    Step { name: "left_prepared", provokes: &["TailerLeftPrepared"] },
    Step { name: "unversioned_update", provokes: &["TailerUnversioned"] },
    Step { name: "gate_not_loaded", provokes: &["GateNotLoaded", "GateRebuildsFail"] },
    Step {
        name: "busy_api",
        provokes: &["ApiAddressAtItsLimit", "ApiConnectionsNearlyAll", "ApiRequestsHeld"],
    },
    Step { name: "mysql_away", provokes: &["ApiPoolEmpty", "ApiErrors", "ExpiryRetries"] },
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use devstack::project_root;

    use super::STEPS;

    #[test]
    fn each_alert_is_provoked_by_one_step() {
        let rules = fs::read_to_string(project_root().join("ops/alerts.yaml")).unwrap();
        let alerts: BTreeSet<&str> =
            rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        let steps: Vec<&str> = STEPS.iter().flat_map(|step| step.provokes).copied().collect();
        let provoked: BTreeSet<&str> = steps.iter().copied().collect();
        assert_eq!(provoked.len(), steps.len(), "one step for each alert: {steps:?}");
        let not_provoked: Vec<_> = alerts.difference(&provoked).collect();
        assert!(not_provoked.is_empty(), "no step provokes {not_provoked:?}");
        let unknown: Vec<_> = provoked.difference(&alerts).collect();
        assert!(unknown.is_empty(), "ops/alerts.yaml has no {unknown:?}");
    }
}
