//! Every supported type: compares values from the binlog with those of SELECT.

use std::collections::BTreeMap;

use super::{
    row::{Image, Row},
    servers::Database,
    tap::Tap,
};
use crate::error::Directive;

/// Comparison of a column's text in the test with the output of SELECT.
#[derive(Clone, Copy)]
enum How {
    AsItIs,
    /// SELECT prints the bytes in hexadecimal, because the text may contain line breaks.
    Hex,
    /// Key order and spaces may differ.
    Json,
}

use How::{AsItIs, Hex, Json};

struct Case {
    /// Name of the column.
    name: &'static str,
    kind: &'static str,
    /// Expression to select; `{}` is the column.
    shown: &'static str,
    how: How,
    values: &'static [&'static str],
}

const fn case(
    name: &'static str,
    kind: &'static str,
    shown: &'static str,
    how: How,
    values: &'static [&'static str],
) -> Case {
    Case { name, kind, shown, how, values }
}

const DATE_TIME: &str =
    "if(month({}) = 0 or day({}) = 0, 'none', date_format({}, '%Y-%m-%d %H:%i:%s.%f'))";
const CLOCK: &str = "time_format({}, '%H:%i:%s.%f')";
const DATE: &str = "if(month({}) = 0 or day({}) = 0, 'none', {})";
const TIMES: &[&str] = &[
    "'00:00:00'",
    "'-00:00:01'",
    "'838:59:59'",
    "'-838:59:59'",
    "'12:34:56.987654'",
    "'-1:2:3.000001'",
    "'-0:0:0.5'",
    "null",
];
const DATE_TIMES: &[&str] = &[
    "'2026-11-21 02:03:04.567891'",
    "'1000-01-01'",
    "'9999-12-31 23:59:59'",
    "'1969-12-31 23:59:59.999999'",
    "0",
    "'2026-00-10 01:02:03'",
    "null",
];
const TIMESTAMPS: &[&str] = &[
    "'1970-01-01 00:00:01'",
    "'2038-01-19 03:14:07'",
    "'2026-05-05 05:05:05.999999'",
    "0",
    "null",
];

const ON_BOTH: &[Case] = &[
    case("i1", "tinyint", "{}", AsItIs, &["-128", "-1", "0", "127", "null"]),
    case("u1", "tinyint unsigned", "{}", AsItIs, &["0", "128", "255", "null"]),
    case("flag", "bool", "{}", AsItIs, &["true", "false", "null"]),
    case("y", "year", "{}", AsItIs, &["1901", "2026", "2155", "0", "null"]),
    case("i2", "smallint", "{}", AsItIs, &["-32768", "-1", "32767"]),
    case("u2", "smallint unsigned", "{}", AsItIs, &["65535"]),
    case("i3", "mediumint", "{}", AsItIs, &["-8388608", "-5", "8388607"]),
    case("u3", "mediumint unsigned", "{}", AsItIs, &["16777215", "16777211"]),
    case("i4", "int", "{}", AsItIs, &["-2147483648", "-5", "2147483647"]),
    case("u4", "int unsigned zerofill", "{} + 0", AsItIs, &["0", "4294967295"]),
    case("i8", "bigint", "{}", AsItIs, &["-9223372036854775808", "-1", "9223372036854775807"]),
    case("u8", "bigint unsigned", "{}", AsItIs, &["0", "18446744073709551615"]),
    case("f4", "float", "{}", AsItIs, &["0", "0.1", "-2.5", "12345.5", "null"]),
    case("f8", "double", "{}", AsItIs, &["0", "0.1", "-123456.789", "123456789012.5", "null"]),
    case(
        "d",
        "decimal(65, 30)",
        "{}",
        AsItIs,
        &[
            "0",
            "-1.5",
            "99999999999999999999999999999999999.123456789012345678901234567890",
            "null",
        ],
    ),
    case("d92", "decimal(9, 2)", "{}", AsItIs, &["0.07", "-0.5", "1234567.89", "-1234567.89"]),
    case("d11", "decimal(18, 9)", "{}", AsItIs, &["-0.000000001", "123456789.987654321"]),
    case("d10", "decimal(10)", "{}", AsItIs, &["-42", "9999999999"]),
    case("du", "decimal(4, 4) unsigned", "{}", AsItIs, &["0.0001", "0.9999"]),
    case(
        "date",
        "date",
        DATE,
        AsItIs,
        &[
            "'2026-11-21'",
            "'1000-01-01'",
            "'9999-12-31'",
            "'1969-12-31'",
            "0",
            "'2026-00-10'",
            "null",
        ],
    ),
    case("t0", "time", CLOCK, AsItIs, TIMES),
    case("t1", "time(1)", CLOCK, AsItIs, TIMES),
    case("t2", "time(2)", CLOCK, AsItIs, TIMES),
    case("t3", "time(3)", CLOCK, AsItIs, TIMES),
    case("t4", "time(4)", CLOCK, AsItIs, TIMES),
    case("t6", "time(6)", CLOCK, AsItIs, TIMES),
    case("dt0", "datetime", DATE_TIME, AsItIs, DATE_TIMES),
    case("dt1", "datetime(1)", DATE_TIME, AsItIs, DATE_TIMES),
    case("dt3", "datetime(3)", DATE_TIME, AsItIs, DATE_TIMES),
    case("dt5", "datetime(5)", DATE_TIME, AsItIs, DATE_TIMES),
    case("dt6", "datetime(6)", DATE_TIME, AsItIs, DATE_TIMES),
    case("ts0", "timestamp null", DATE_TIME, AsItIs, TIMESTAMPS),
    case("ts2", "timestamp(2) null", DATE_TIME, AsItIs, TIMESTAMPS),
    case("ts6", "timestamp(6) null", DATE_TIME, AsItIs, TIMESTAMPS),
    case("ch", "char(10)", "hex({})", Hex, &["'a'", "''", "'  é券'", "null"]),
    case("chx", "char(200)", "hex({})", Hex, &["repeat('券', 200)", "'end '"]),
    case("vc", "varchar(20)", "hex({})", Hex, &["'a'", "'tail  '", "'😀\\n\\t\\\\'", "''", "null"]),
    case("vcx", "varchar(300)", "hex({})", Hex, &["repeat('x', 300)"]),
    case("asc_", "varchar(20) character set ascii", "hex({})", Hex, &["'plain'"]),
    case("u3b", "varchar(20) character set utf8mb3 collate utf8mb3_bin", "hex({})", Hex, &["'券'"]),
    case("tt", "tinytext", "hex({})", Hex, &["'tiny'"]),
    case("tx", "text", "hex({})", Hex, &["repeat('ü', 30000)", "null"]),
    case("mt", "mediumtext", "hex({})", Hex, &["repeat('m', 70000)"]),
    case("lt", "longtext", "hex({})", Hex, &["'long'"]),
    case(
        "bin",
        "binary(4)",
        "hex({})",
        AsItIs,
        &["x'01020304'", "x'0100'", "x''", "x'ff'", "null"],
    ),
    case("binx", "binary(255)", "hex({})", AsItIs, &["x'00ff'", "repeat(x'80', 255)"]),
    case("vb", "varbinary(20)", "hex({})", AsItIs, &["x'00'", "x'ff00'", "x''", "null"]),
    case("vbx", "varbinary(300)", "hex({})", AsItIs, &["repeat(x'00ff', 150)"]),
    case("tb", "tinyblob", "hex({})", AsItIs, &["x'ff'"]),
    case("bl", "blob", "hex({})", AsItIs, &["repeat(x'fe', 300)", "null"]),
    case("lb", "longblob", "hex({})", AsItIs, &["repeat(x'fd', 70000)"]),
    case(
        "en",
        "enum('small', 'it''s', '券')",
        "{}",
        AsItIs,
        &["'small'", "'it''s'", "'券'", "null"],
    ),
    case("enx", "enum('') character set ascii", "{}", AsItIs, &["''"]),
    case(
        "se",
        "set('a', 'b', '券', 'd', 'e', 'f', 'g', 'h', 'i')",
        "{}",
        AsItIs,
        &["''", "'a'", "'a,券,i'", "null"],
    ),
    case("b1", "bit(1)", "{} + 0", AsItIs, &["0", "1", "null"]),
    case("b10", "bit(10)", "{} + 0", AsItIs, &["1", "513", "1023"]),
    case("b64", "bit(64)", "{} + 0", AsItIs, &["18446744073709551615", "1"]),
    case("ge", "geometry", "hex({})", AsItIs, &["point(1, 2)", "null"]),
    case(
        "js",
        "json",
        "{}",
        Json,
        &[
            "'null'",
            "'[]'",
            "'{}'",
            "'true'",
            "'-1'",
            "'1.5e300'",
            "'18446744073709551615'",
            "'-9223372036854775808'",
            "'\"券 \\\\\"quoted\\\\\"\"'",
            "'{\"b\": [1, -70000, 4294967295, 0.1, false, null, \"x\"], \"a\": {\"deep\": [[[{}]]]}, \"\": 7}'",
            "concat('[', repeat('\"0123456789\",', 9000), '1]')",
            "concat('{\"long\": \"', repeat('é', 40000), '\"}')",
            "null",
        ],
    ),
];

const ON_MYSQL: &[Case] = &[
    case(
        "jo",
        "json",
        "{}",
        Json,
        &[
            "json_object('d', cast('2026-11-21' as date), 't', cast('-01:02:03.5' as time(6)))",
            "json_array(cast('2026-11-21 01:02:03.000009' as datetime(6)), cast(1.10 as decimal(9, 2)))",
            "json_array(cast(x'00ff' as binary), -32769, 32768, 65536, 2147483648)",
        ],
    ),
    case("ve", "vector(3)", "hex({})", AsItIs, &["string_to_vector('[1, 2.5, -3]')", "null"]),
];

#[test]
fn each_type_comes_out_as_select_says_inserted_updated_and_deleted() {
    for server in Database::all() {
        let cases = ON_BOTH.iter().chain(if server.is_mariadb { &[] } else { ON_MYSQL });
        let cases: Vec<&Case> = cases.collect();
        let mut tap = Tap::on(&server);
        let columns: Vec<_> =
            cases.iter().map(|case| format!("{} {} null", case.name, case.kind)).collect();
        tap.sql(&format!("create table t (id int primary key, {})", columns.join(", ")));
        let expected = fill(&tap, &cases);
        let rows = tap.rows();
        assert_eq!(rows.len(), expected.len());
        for row in &rows {
            compare(&expected, row.after.as_ref().unwrap(), row.after("id"));
        }
        tap.sql("update t set id = id + 1000; delete from t");
        let rows = tap.rows();
        let (updates, deletes): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| row.after.is_some());
        assert_eq!((updates.len(), deletes.len()), (expected.len(), expected.len()));
        for row in updates {
            let id = row.before.as_ref().unwrap()["id"].clone().unwrap();
            compare(&expected, row.before.as_ref().unwrap(), &id);
            compare(&expected, row.after.as_ref().unwrap(), &id);
        }
    }
}

/// Output of SELECT for the column that each row sets, by row id.
type Expected<'a> = BTreeMap<String, (&'a Case, Option<String>)>;

/// Inserts each value in its own row, all values of a case by one statement.
fn fill<'a>(tap: &Tap, cases: &[&'a Case]) -> Expected<'a> {
    let mut expected = BTreeMap::new();
    let mut inserts = "set sql_mode = '';".to_owned();
    let mut selects = String::new();
    let mut id = 0;
    for case in cases {
        let mut rows = Vec::new();
        let shown = case.shown.replace("{}", case.name);
        for value in case.values {
            rows.push(format!("({id}, {value})"));
            selects += &format!("select {id}, {shown} from t where id = {id};");
            expected.insert(id.to_string(), (*case, None));
            id += 1;
        }
        inserts += &format!("insert into t (id, {}) values {};", case.name, rows.join(", "));
    }
    tap.sql(&inserts);
    for line in tap.sql(&selects).lines() {
        let (id, shown) = line.split_once('\t').unwrap();
        expected.get_mut(id).unwrap().1 = (shown != "NULL").then(|| shown.to_owned());
    }
    expected
}

/// Compares the column that a row sets with the output of SELECT, and the others with NULL.
fn compare(expected: &Expected<'_>, image: &Image, id: &str) {
    let (case, shown) = &expected[id];
    for (column, found) in image {
        if column == "id" {
            continue;
        }
        if column != case.name {
            assert_eq!(found, &None, "{column} in the row of {}", case.name);
            continue;
        }
        let is = |value: &Option<String>| match (value, case.how) {
            (Some(text), Json) => {
                let value: serde_json::Value = serde_json::from_str(text).unwrap();
                Some(value.to_string())
            }
            (value, _) => value.clone(),
        };
        let found = match case.how {
            Hex => found.as_ref().map(|text| text.bytes().map(|b| format!("{b:02X}")).collect()),
            AsItIs | Json => found.clone(),
        };
        assert_eq!(is(&found), is(shown), "{} {}", case.name, case.kind);
    }
}

/// A server lists character sets only for the columns that have one, and servers differ in which columns these are. A
/// mistake gives a column its neighbour's character set.
#[test]
fn each_column_has_its_own_character_set_beside_columns_of_every_type() {
    let plain: Vec<_> = ON_BOTH.iter().map(|case| case.kind).collect();
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        let own = if server.is_mariadb { vec![] } else { vec!["vector(3)"] };
        let kinds: Vec<_> = plain.iter().chain(&own).collect();
        // Mostly text, then mostly bytes: the server writes the list in two formats.
        for (table, often, rarely) in
            [("t", "varchar(9)", "varbinary(9)"), ("u", "varbinary(9)", "varchar(9)")]
        {
            let columns: Vec<_> = (0..)
                .zip(&kinds)
                .map(|(i, kind)| format!("c{i} {kind} null, often{i} {often} default '券'"))
                .collect();
            tap.sql(&format!(
                "create table {table} ({}, rare {rarely} default '券')",
                columns.join(", ")
            ));
            tap.sql(&format!("insert into {table} (often0) values ('券')"));
            let rows = tap.rows();
            let (often, rare) = if table == "t" { ("券", "E588B8") } else { ("E588B8", "券") };
            for (i, kind) in kinds.iter().enumerate() {
                assert_eq!(rows[0].after(&format!("often{i}")), often, "behind {kind}");
            }
            assert_eq!(rows[0].after("rare"), rare);
        }
    }
}

#[test]
fn what_cannot_be_followed_stops_with_the_columns_name() {
    for server in Database::all() {
        let said = |create: &str, insert: &str| {
            let mut tap = Tap::on(&server);
            tap.sql(create);
            tap.sql(insert);
            let error = tap.try_transactions().unwrap_err();
            assert_eq!(error.directive(), Directive::Stop);
            error.to_string()
        };
        let latin = "create table t (id int, name varchar(20) character set latin1)";
        let text = said(latin, "insert into t values (1, 'é')");
        assert!(text.contains("t.name") && text.contains("utf8mb4"), "{text}");
        if server.is_mariadb {
            let compressed = "create table t (id int, body text compressed)";
            let text = said(compressed, "insert into t values (1, repeat('x', 500))");
            assert!(text.contains("t.body") && text.contains("code 140"), "{text}");
        }
        let minimal = "create table t (id int primary key, a int, b int)";
        let text = said(
            minimal,
            "insert into t values (1, 1, 1); set binlog_row_image = 'minimal'; update t set a = 2",
        );
        assert!(text.contains("table t") && text.contains("binlog_row_image"), "{text}");
    }
}

#[test]
fn differences_of_json_stop_it_in_followed_tables_only() {
    for server in Database::all().into_iter().filter(|server| !server.is_mariadb) {
        let change = "set binlog_row_value_options = 'PARTIAL_JSON'; update {} set j = json_set(j, '$.a', 2)";
        let mut tap = Tap::on(&server);
        for table in ["t", "elsewhere"] {
            tap.sql(&format!("create table {table} (id int primary key, j json)"));
            let document = "concat('{\"a\": 1, \"b\": \"', repeat('x', 500), '\"}')";
            tap.sql(&format!("insert into {table} values (1, {document})"));
        }
        tap.sql(&change.replace("{}", "elsewhere"));
        assert_eq!(tap.rows().len(), 1);
        tap.sql(&change.replace("{}", "t"));
        let text = tap.try_transactions().unwrap_err().to_string();
        assert!(text.contains("binlog_row_value_options"), "{text}");
    }
}

/// A DATETIME keeps the text that was written, a TIMESTAMP the moment that it denotes.
#[test]
fn a_session_in_another_time_zone_moves_timestamps_and_nothing_else() {
    let written = "2026-11-21 02:03:04.567891";
    let zones = [
        ("+00:00", "2026-11-21 02:03:04.567891"),
        ("+05:30", "2026-11-20 20:33:04.567891"),
        ("-08:00", "2026-11-21 10:03:04.567891"),
    ];
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        tap.sql("create table t (id int primary key, d datetime(6), s timestamp(6) null)");
        for (id, (zone, _)) in (1..).zip(zones) {
            tap.sql(&format!(
                "set time_zone = '{zone}'; insert into t values ({id}, '{written}', '{written}')"
            ));
        }
        let checked_rows = |tap: &mut Tap| {
            let rows = tap.rows();
            assert_eq!(rows.len(), zones.len());
            for (row, (zone, moment)) in rows.iter().zip(zones) {
                assert_eq!((row.after("d"), row.after("s")), (written, moment), "from {zone}");
            }
            rows
        };
        checked_rows(&mut tap);
        // The time zone of a session that updates the row does not matter either.
        tap.sql("set time_zone = '+13:00'; update t set id = id + 10 order by id");
        for (row, (_, moment)) in checked_rows(&mut tap).iter().zip(zones) {
            let before = row.before.as_ref().unwrap();
            assert_eq!(before["s"].as_deref(), Some(moment));
        }
        let shown = tap.sql("set time_zone = '+00:00'; select d, s from t order by id");
        let shown: Vec<_> = shown.lines().map(|line| line.split_once('\t').unwrap()).collect();
        assert_eq!(shown, zones.map(|(_, moment)| (written, moment)), "as SELECT says");
    }
}
