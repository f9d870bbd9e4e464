//! Tests of GTIDs and sets: parsing, rejecting, adding.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const UUID: &str = "d4c17f0c-4f11-11ea-93e3-325d3e1cd1c8";

#[test]
fn a_mariadb_position_is_the_last_gtid_of_each_domain() {
    let mut set = GtidSet::parse(Flavor::MariaDb, "0-1-5,7-2-9").unwrap();
    set.add(&Gtid::MariaDb { domain: 0, server: 3, sequence: 6 });
    assert_eq!(set.to_string(), "0-3-6,7-2-9");
    assert_eq!(GtidSet::parse(Flavor::MariaDb, "").unwrap(), GtidSet::empty(Flavor::MariaDb));
}

#[test]
fn one_gtid_is_read_and_several_are_not() {
    for (flavor, text) in [
        (Flavor::MariaDb, "0-1-5".to_owned()),
        (Flavor::MySql, format!("{UUID}:5")),
        (Flavor::MySql, format!("{UUID}:blue:5")),
    ] {
        let gtid = Gtid::parse(flavor, &text).unwrap();
        assert_eq!(gtid.to_string(), text);
        let mut set = GtidSet::empty(flavor);
        assert!(set.is_empty() && !set.contains(&gtid));
        set.add(&gtid);
        assert!(!set.is_empty() && set.contains(&gtid));
    }
    for text in [format!("{UUID}:5-6"), format!("{UUID}:5:7"), format!("{UUID}:5:blue:5")] {
        assert!(Gtid::parse(Flavor::MySql, &text).is_err(), "{text}");
    }
    assert!(Gtid::parse(Flavor::MariaDb, "0-1-5,1-1-1").is_err());
    assert!(Gtid::parse(Flavor::MariaDb, "").is_err());
}

#[test]
fn what_is_removed_is_no_part_of_the_set_and_all_else_is() {
    let one = |text: &str| Gtid::parse(Flavor::MySql, &format!("{UUID}:{text}")).unwrap();
    for (set, removed, left) in [
        ("1-5", "5", "1-4"),
        ("1-5", "1", "2-5"),
        ("1-5:9", "3", "1-2:4-5:9"),
        ("1-5:9", "9", "1-5"),
        ("1-5:9", "7", "1-5:9"),
        ("1-5:blue:1-2", "blue:2", "1-5:blue:1"),
        ("1-5:blue:1", "blue:1", "1-5"),
    ] {
        let mut set = GtidSet::parse(Flavor::MySql, &format!("{UUID}:{set}")).unwrap();
        set.remove(&one(removed));
        assert_eq!(set.to_string(), format!("{UUID}:{left}"));
    }
    let mut last = GtidSet::parse(Flavor::MySql, &format!("{UUID}:1")).unwrap();
    last.remove(&one("1"));
    assert!(last.is_empty());
    let mut position = GtidSet::parse(Flavor::MariaDb, "0-1-5,7-2-9").unwrap();
    position.remove(&Gtid::MariaDb { domain: 7, server: 2, sequence: 9 });
    assert_eq!(position.to_string(), "0-1-5");
}

#[test]
fn text_that_is_no_position_is_refused() {
    for text in ["0-1", "0-1-2-3", "a-1-2", "0-+1-2", &format!("{UUID}:1-5")] {
        assert!(GtidSet::parse(Flavor::MariaDb, text).is_err(), "{text}");
    }
    let beyond = format!("{UUID}:1-9223372036854775808");
    let signs = format!("{}:1", UUID.replace("d4", "+4"));
    // A tag without a number, and invalid tags.
    let tags = [":tag", ":1:tag", ":one:two:1", ":1tag:1", ":a-b:1", "::1"];
    let tags = tags.map(|tag| format!("{UUID}{tag}"));
    let mysql = [format!("{UUID}:5-1"), beyond, signs];
    for text in tags.iter().map(String::as_str) {
        assert!(GtidSet::parse(Flavor::MySql, text).is_err(), "{text}");
    }
    for text in mysql.iter().map(String::as_str).chain(["0-1-2", "zz:1"]) {
        assert!(GtidSet::parse(Flavor::MySql, text).is_err(), "{text}");
    }
}

#[test]
fn numbers_with_a_tag_are_counted_apart() {
    let other = UUID.replace('d', "e");
    let text = format!("{UUID}:1-5:Blue:1-3:6:red_2:9,\n{other}:blue:1");
    let mut set = GtidSet::parse(Flavor::MySql, &text).unwrap();
    let written = format!("{UUID}:1-5:blue:1-3:6:red_2:9,{other}:blue:1");
    assert_eq!(set.to_string(), written);
    let uuid = parse_uuid(UUID).unwrap();
    let mut add = |tag: &str, number| {
        let tag = Tag::parse(tag.as_bytes()).unwrap_or_default();
        set.add(&Gtid::MySql { series: Series { uuid, tag }, number });
    };
    add("", 6);
    add("blue", 4);
    add("green", 1);
    let grown = written.replace("1-5", "1-6").replace("1-3:6", "1-4:6:green:1");
    assert_eq!(set.to_string(), grown);
    // The server may list each tag separately.
    let apart = format!("{other}:blue:1,{UUID}:blue:1-4:6,{UUID}:green:1:red_2:9,{UUID}:1-6");
    assert_eq!(GtidSet::parse(Flavor::MySql, &apart).unwrap(), set);
}

proptest! {
    #[test]
    fn a_mysql_position_holds_exactly_the_transactions_added(numbers in prop::collection::vec(1u64..40, 0..40)) {
        let mut set = GtidSet::empty(Flavor::MySql);
        let series = Series { uuid: parse_uuid(UUID).unwrap(), tag: Tag::default() };
        for number in &numbers {
            set.add(&Gtid::MySql { series, number: *number });
        }
        let text = set.to_string();
        prop_assert_eq!(&GtidSet::parse(Flavor::MySql, &text).unwrap(), &set);
        let GtidSet::MySql(all) = set else { unreachable!() };
        let held: Vec<u64> = all.values().flatten().flat_map(|(a, b)| *a..=*b).collect();
        let added: BTreeSet<u64> = numbers.into_iter().collect();
        prop_assert_eq!(held, added.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}") {
        let _read = GtidSet::parse(Flavor::MySql, &text);
        let _read = GtidSet::parse(Flavor::MariaDb, &text);
    }
}

#[test]
fn a_set_covers_what_it_has_and_nothing_else() {
    let mysql = |text: &str| {
        let series: Vec<String> =
            text.split_whitespace().map(|numbers| format!("{UUID}:{numbers}")).collect();
        GtidSet::parse(Flavor::MySql, &series.join(",")).unwrap()
    };
    let mariadb = |text: &str| GtidSet::parse(Flavor::MariaDb, text).unwrap();
    for (set, other, covers) in [
        (mysql("1-9"), mysql("1-9"), true),
        (mysql("1-9"), mysql("2-3:5"), true),
        (mysql("1-9"), mysql(""), true),
        (mysql("1-4:6-9"), mysql("1-9"), false),
        (mysql("1-9"), mysql("1-10"), false),
        (mysql("1-9"), mysql("blue:1"), false),
        (mysql("1-9:blue:1-3"), mysql("2:blue:2"), true),
        (mariadb("0-1-5,7-2-9"), mariadb("0-1-5"), true),
        (mariadb("0-1-5,7-2-9"), mariadb("0-3-4,7-2-9"), true),
        (mariadb("0-1-5"), mariadb("0-1-6"), false),
        (mariadb("0-1-5"), mariadb("7-1-1"), false),
        (mariadb(""), mariadb(""), true),
        (mariadb("0-1-5"), mysql(""), false),
    ] {
        assert_eq!(set.covers(&other), covers, "{set} and {other}");
    }
}
