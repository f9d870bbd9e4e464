//! [`imposed`]: what a server can give to every new session.

use crate::Flavor;

/// Session variables of both servers, each with a value of `set global` under which somebody's SQL goes wrong or ends.
const ON_BOTH: &[&str] = &[
    "autocommit = 0",
    "character_set_client = 'latin1'",
    "character_set_results = 'latin1'",
    "character_set_server = 'latin1'",
    "collation_connection = 'latin1_bin'",
    "completion_type = 'CHAIN'",
    "default_storage_engine = 'MyISAM'",
    "default_week_format = 3",
    "div_precision_increment = 0",
    "explicit_defaults_for_timestamp = 0",
    "foreign_key_checks = 0",
    "group_concat_max_len = 4",
    "innodb_lock_wait_timeout = 1",
    "innodb_strict_mode = 0",
    "innodb_table_locks = 0",
    "interactive_timeout = 1",
    "lc_time_names = 'de_DE'",
    "lock_wait_timeout = 1",
    "low_priority_updates = 1",
    "max_error_count = 0",
    "max_join_size = 1",
    "max_sort_length = 8",
    "net_read_timeout = 1",
    "net_write_timeout = 1",
    "old_alter_table = 1",
    "optimizer_switch = 'index_merge=off,materialization=off,semijoin=off'",
    "sql_auto_is_null = 1",
    "sql_big_selects = 0",
    "sql_buffer_result = 1",
    "sql_notes = 0",
    "sql_safe_updates = 1",
    "sql_select_limit = 1",
    "sql_warnings = 1",
    "time_zone = '+13:00'",
    "tmp_table_size = 1024",
    "unique_checks = 0",
    "updatable_views_with_limit = 0",
    "wait_timeout = 1",
];

const ON_MARIADB: &[&str] = &[
    "alter_algorithm = 'INSTANT'",
    "binlog_annotate_row_events = 0",
    "check_constraint_checks = 0",
    "idle_readonly_transaction_timeout = 1",
    "idle_transaction_timeout = 1",
    "idle_write_transaction_timeout = 1",
    "in_predicate_conversion_threshold = 2",
    "max_recursive_iterations = 1",
    "max_statement_time = 0.5",
    "old_mode = 'ZERO_DATE_TIME_CAST,NO_DUP_KEY_WARNINGS_WITH_IGNORE'",
    "query_cache_type = 1",
    "sql_if_exists = 1",
    "sql_mode = 'ORACLE,EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT,TIME_ROUND_FRACTIONAL,\
     NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,NO_AUTO_VALUE_ON_ZERO,NO_UNSIGNED_SUBTRACTION'",
    "system_versioning_alter_history = 'KEEP'",
    "tx_isolation = 'SERIALIZABLE'",
    "tx_read_only = 1",
];

const ON_MYSQL: &[&str] = &[
    "binlog_rows_query_log_events = 1",
    "binlog_transaction_compression = 1",
    "cte_max_recursion_depth = 1",
    "eq_range_index_dive_limit = 1",
    "max_execution_time = 1",
    "session_track_gtids = 'ALL_GTIDS'",
    "session_track_schema = 1",
    "session_track_system_variables = '*'",
    "session_track_transaction_info = 'CHARACTERISTICS'",
    "sql_generate_invisible_primary_key = 1",
    "sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,NO_AUTO_VALUE_ON_ZERO,\
     IGNORE_SPACE,NO_UNSIGNED_SUBTRACTION,REAL_AS_FLOAT,TIME_TRUNCATE_FRACTIONAL'",
    "sql_require_primary_key = 1",
    "transaction_isolation = 'SERIALIZABLE'",
    "transaction_read_only = 1",
];

/// Returns assignments of global variables, for `set global`, each of which gives every later session of this server a
/// value that SQL can break on. All together are possible.
pub fn imposed(flavor: Flavor) -> impl Iterator<Item = &'static str> {
    let own = match flavor {
        Flavor::Mariadb => ON_MARIADB,
        Flavor::Mysql => ON_MYSQL,
    };
    ON_BOTH.iter().chain(own).copied()
}

/// Statements for `init_connect`, which a server runs at the beginning of each session of a user without SUPER.
pub const INIT_CONNECT: &str = "set autocommit = 0, sql_safe_updates = 1, sql_select_limit = 1, time_zone = '-05:00', \
                                sql_mode = 'ANSI_QUOTES', unique_checks = 0";
