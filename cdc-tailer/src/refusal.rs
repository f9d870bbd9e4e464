//! Maps the server's error packets to our errors.

use crate::error::TailError;

/// Reported for a transaction without a GTID. A server that dumps by GTID refuses such a transaction with an error
/// packet; other servers send it.
pub(crate) const NO_GTID: &str =
    "a transaction has no GTID: set gtid_mode = ON on the server, then start with --resnapshot";

/// Parses an error packet: number, optional SQL state after `#`, message.
pub(crate) fn of(packet: &[u8]) -> TailError {
    let (code, message) = read(packet);
    classify(code, message)
}

/// Parses the answer to a login. Errors that are not listed here are transient: too many connections, a server that
/// starts or stops.
pub(crate) fn of_login(packet: &[u8]) -> TailError {
    // Access denied: in general, to a database, by a plugin, for lack of a privilege; an unknown plugin; an expired
    // password; a locked account. Of both flavors.
    const DENIED: [u16; 8] = [1045, 1044, 1698, 1227, 1251, 1862, 3118, 4151];
    const TLS_DEMANDED: u16 = 3159;
    let (code, message) = read(packet);
    match code {
        TLS_DEMANDED => TailError::Login {
            reason: format!("{message} Add ssl-mode=VERIFY_IDENTITY to DATABASE_URL"),
        },
        _ if DENIED.contains(&code) => TailError::Denied { reason: message },
        _ => TailError::Connect { reason: format!("the server answers {code}: {message}") },
    }
}

fn read(packet: &[u8]) -> (u16, String) {
    let code = match packet {
        [_, low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    };
    let text = packet.get(3..).unwrap_or_default();
    let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or_default() } else { text };
    (code, String::from_utf8_lossy(text).into_owned())
}

fn classify(code: u16, message: String) -> TailError {
    const DUPLICATE_SERVER_ID: u16 = 4052;
    const CANNOT_READ_BINLOG: u16 = 1236;
    // "Is missing the GTID": the server has earlier and later ones, and never had ours.
    const POSITION_LOST: [&str; 8] = [
        "purged",
        "is missing the gtid",
        "could not find",
        "could not open log file",
        "not in the master's binlog",
        "diverged",
        "more gtids",
        "higher sequence numbers",
    ];
    const REPLACED: [&str; 3] = ["same server_uuid", "same server_id", "same server id"];
    const UNREADABLE: [&str; 6] = [
        "i/o error reading log event",
        "bogus data",
        "read checksum",
        "did not pass crc check",
        "truncated in the middle of event",
        // The server sends events of up to 1 GiB, whatever that setting is: the event's length is wrong.
        "exceeded max_allowed_packet",
    ];
    let lower = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    match code {
        DUPLICATE_SERVER_ID => TailError::Evicted { reason: message },
        CANNOT_READ_BINLOG if says(&REPLACED) => TailError::Evicted { reason: message },
        CANNOT_READ_BINLOG if says(&POSITION_LOST) => TailError::PositionLost { reason: message },
        CANNOT_READ_BINLOG if says(&["anonymous transaction"]) => {
            TailError::Unsupported { what: NO_GTID.to_owned() }
        }
        // Both `reset master` under an open stream and a damaged file produce these.
        CANNOT_READ_BINLOG if says(&UNREADABLE) => TailError::Unreadable { reason: message },
        // Access denied, or the replication privilege is missing.
        1045 | 1227 => TailError::Denied { reason: message },
        // Shutting down, or the connection was killed.
        1053 | 1077 | 1079 | 1317 | 1927 => TailError::Ended { reason: message },
        _ => TailError::Server { code, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purged_binlog_is_distinguished_from_other_refusals() {
        let lost = "Could not find GTID state requested by slave in any binlog files. Probably the \
                    slave state is too old and required binlog files have been purged.";
        assert!(matches!(classify(1236, lost.into()), TailError::PositionLost { .. }));
        let hole = "The binlog on the master is missing the GTID 0-1-7 requested by the slave (even \
                    though both a prior and a subsequent sequence number does exist), and GTID strict \
                    mode is enabled";
        assert!(matches!(classify(1236, hole.into()), TailError::PositionLost { .. }));
        let evicted = "A slave with the same server_uuid/server_id as this slave has connected";
        assert!(matches!(classify(1236, evicted.into()), TailError::Evicted { .. }));
        let reset =
            "Got fatal error: I/O error reading log event; the first event 'binlog.000001' at 4";
        let reset = classify(1236, reset.into());
        assert_eq!(reset.directive(), crate::error::Directive::Suspect, "{reset}");
        for damaged in [
            "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on master",
            "binlog truncated in the middle of event; consider out of disk space on source",
            "event read from binlog did not pass crc check",
        ] {
            assert!(matches!(classify(1236, damaged.into()), TailError::Unreadable { .. }));
        }
        let other = "Misconfigured master - server_id was not set";
        let other = classify(1236, other.into());
        assert!(matches!(other, TailError::Server { .. }));
        assert!(other.to_string().contains("start with --resnapshot"), "{other}");
    }

    #[test]
    fn an_error_packet_gives_number_and_words_or_nothing() {
        let packet = b"\xff\x0b\x05#28000Access denied".as_slice();
        assert!(matches!(of(packet), TailError::Server { code: 1291, message }
            if message == "Access denied"));
        assert!(matches!(of(b"\xff"), TailError::Server { code: 0, .. }));
    }
}
