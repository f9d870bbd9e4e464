//! Daylight saving time: a DATETIME keeps the text that was written, a TIMESTAMP the moment that was committed, in the
//! hour that does not exist and in the hour that occurs twice.

use super::{servers::Database, tap::Tap};

/// When clocks go forward and back, seconds since 1970: at 01:00 UTC on 2026-03-29 and 2026-10-25.
const FORWARD: u32 = 1_774_746_000;
const BACK: u32 = 1_792_890_000;

/// Text that is written, and the moment in UTC; `None` if the server chooses it.
const WRITTEN: [(&str, Option<&str>); 6] = [
    ("2026-03-29 01:59:59.999999", Some("2026-03-29 00:59:59.999999")),
    ("2026-03-29 02:30:00.000000", None),
    ("2026-03-29 03:00:00.000000", Some("2026-03-29 01:00:00.000000")),
    ("2026-10-25 01:59:59.000001", Some("2026-10-24 23:59:59.000001")),
    ("2026-10-25 02:30:00.000000", None),
    ("2026-10-25 03:00:00.000000", Some("2026-10-25 02:00:00.000000")),
];

/// The hour that occurs twice, in local time and in UTC.
const TWICE: [(&str, &str); 2] = [
    ("2026-10-25 02:30:00.250000", "2026-10-25 00:30:00.250000"),
    ("2026-10-25 02:30:00.250000", "2026-10-25 01:30:00.250000"),
];

/// Creates a time zone like Berlin's, as `mysql_tzinfo_to_sql` would: private servers have none.
fn make_zone(tap: &Tap) -> &str {
    let (_, zone) = tap.database.url.rsplit_once('/').unwrap();
    tap.sql(&format!(
        "insert into mysql.time_zone (use_leap_seconds) values ('N'); set @id = last_insert_id();
         insert into mysql.time_zone_name (name, time_zone_id) values ('{zone}', @id);
         insert into mysql.time_zone_transition_type
             (time_zone_id, transition_type_id, `offset`, is_dst, abbreviation)
             values (@id, 0, 3600, 0, 'CET'), (@id, 1, 7200, 1, 'CEST');
         insert into mysql.time_zone_transition (time_zone_id, transition_time, transition_type_id)
             values (@id, {FORWARD}, 1), (@id, {BACK}, 0);"
    ));
    zone
}

#[test]
fn around_a_change_of_clocks_each_moment_is_the_one_that_was_committed() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        let zone = make_zone(&tap).to_owned();
        tap.sql(
            "create table t (id int primary key, d datetime(6) default current_timestamp(6), \
             s timestamp(6) null default current_timestamp(6))",
        );
        let mut inserts = format!("set sql_mode = '', time_zone = '{zone}';");
        for (id, (written, _)) in (1..).zip(WRITTEN) {
            inserts += &format!("insert into t values ({id}, '{written}', '{written}');");
        }
        // Only the moment distinguishes the two.
        for (id, moment) in [(7, BACK - 1800), (8, BACK + 1800)] {
            inserts += &format!("set timestamp = {moment}.25; insert into t (id) values ({id});");
        }
        tap.sql(&inserts);
        let shown = tap.sql("set time_zone = '+00:00'; select d, s from t order by id");
        let shown: Vec<_> = shown.lines().map(|line| line.split_once('\t').unwrap()).collect();
        assert_eq!(shown[WRITTEN.len()..], TWICE, "as SELECT says");
        assert_received(&mut tap, &shown);
        // Updating existing rows changes neither.
        tap.sql(&format!("set time_zone = '{zone}'; update t set id = id + 10 order by id"));
        assert_received(&mut tap, &shown);
    }
}

/// Asserts that the next rows contain what SELECT prints, which is what was written.
fn assert_received(tap: &mut Tap, shown: &[(&str, &str)]) {
    let rows = tap.rows();
    let received: Vec<_> = rows.iter().map(|row| (row.after("d"), row.after("s"))).collect();
    assert_eq!(received, shown);
    for ((date_time, moment), (written, expected)) in received.into_iter().zip(WRITTEN) {
        assert_eq!(date_time, written);
        assert_eq!(moment, expected.unwrap_or(moment), "{written}");
    }
    let before = rows.iter().filter_map(|row| row.before.as_ref());
    for (before, (date_time, moment)) in before.zip(shown) {
        let of = |column: &str| before[column].as_deref();
        assert_eq!((of("d"), of("s")), (Some(*date_time), Some(*moment)));
    }
}
