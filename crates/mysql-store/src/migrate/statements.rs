//! Splits a migration into its statements.

/// Returns a migration's statements, without comments and the semicolons at their ends.
///
/// A statement ends with a semicolon at the end of a line, if the next line is not indented: the statements inside a
/// trigger are.
pub(super) fn statements(migration: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    let mut current = String::new();
    for line in migration.lines() {
        let code = without_comment(line);
        if code.is_empty() {
            continue;
        }
        if current.ends_with(';') && !code.starts_with(' ') {
            statements.push(std::mem::take(&mut current));
        }
        if !current.is_empty() {
            current.push('\n');
        }
        current.push_str(code);
    }
    statements.push(current);
    for statement in &mut statements {
        statement.truncate(statement.trim_end_matches(';').len());
    }
    statements.retain(|statement| !statement.is_empty());
    statements
}

/// Returns a line up to its comment. Two dashes in a string begin none.
fn without_comment(line: &str) -> &str {
    let is_outside = |at: &usize| line[..*at].matches('\'').count().is_multiple_of(2);
    let comment = line.match_indices("--").map(|(at, _)| at).find(is_outside);
    line[..comment.unwrap_or(line.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_is_split_at_the_ends_of_its_statements_and_not_inside_a_trigger() {
        let text = "-- First; a comment.\ncreate table t (\n    id int, -- a; b\n    c int\n) engine = innodb;\n\n\
                    create trigger g before update on t for each row\n    if new.id <> 1 then\n        \
                    signal sqlstate '45000' set message_text = 'a -- b; c';\n    end if;\n-- Last.\n\
                    insert into t values (1, 2); -- done\n";
        let split = statements(text);
        assert_eq!(split.len(), 3, "{split:#?}");
        assert_eq!(split[0], "create table t (\n    id int,\n    c int\n) engine = innodb");
        assert!(split[1].contains("'a -- b; c';\n    end if"), "{}", split[1]);
        assert_eq!(split[2], "insert into t values (1, 2)");
    }

    #[test]
    fn every_statement_of_the_migrations_begins_with_a_verb() {
        for migration in super::super::MIGRATIONS.iter() {
            for statement in statements(migration.sql.as_str()) {
                let verb = statement.split(' ').next().unwrap();
                let is_known = ["create", "alter", "insert", "update"].contains(&verb);
                assert!(is_known, "{}: {statement}", migration.version);
            }
        }
    }
}
