-- The view may be a cluster, each of whose slots has a master and a generation of its own
-- (crates/mysql-store/src/view_generation.rs). Absent: one server, run_id, has all slots.
alter table view_generation add column servers mediumtext null;
