//! Alerts that no step provokes, and why.

pub(super) const NOT_PROVOKED: [(&str, &str); 22] = [
    ("ClaimsStuck", OF_HOURS),
    ("AdmissionsAbandoned", OF_HOURS),
    ("ClaimsShed", OF_LOAD),
    ("LandingQueued", OF_LOAD),
    ("LandingSlow", OF_LOAD),
    ("SettlingBehind", OF_LOAD),
    ("ClaimStatsLost", OF_HOURS),
    ("JobStuck", OF_HOURS),
    ("ApiPoolEmpty", OF_LOAD),
    ("ApiRequestsHeld", OF_LOAD),
    ("RelayWorkersMissing", OF_A_DEFECT),
    ("RelayRetries", OF_HOURS),
    ("ClaimLanderBehind", OF_HOURS),
    ("QueuedClaimsUnknown", OF_LOAD),
    ("TailerBehind", OF_LOAD),
    ("TailerBinlogExpires", OF_HOURS),
    ("ConsumerRetries", OF_HOURS),
    ("ViewLosesWrites", OF_A_DEFECT),
    ("ViewTooSmall", OF_LOAD),
    ("ExpiryLate", OF_LOAD),
    ("ExpirySweepFinds", OF_HOURS),
    ("ExpiryRetries", OF_HOURS),
];

const OF_A_DEFECT: &str = "a defect: see the tests of that defect";
const OF_LOAD: &str = "a load or a slowness that this machine does not make: see the unit test";
const OF_HOURS: &str = "hours, or many minutes: see the unit test";
