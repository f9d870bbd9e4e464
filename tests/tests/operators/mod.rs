//! Operators: API and command line, keys, quotas, record, repairs.

pub(crate) mod audit;
pub(crate) mod claim_state;
pub(crate) mod claim_story;
pub(crate) mod cli;
pub(crate) mod cli_desk;
pub(crate) mod cli_edit;
pub(crate) mod cli_queued;
pub(crate) mod cli_record;
pub(crate) mod cli_repair;
pub(crate) mod cli_templates;
pub(crate) mod idempotency;
pub(crate) mod limits;
pub(crate) mod merchants;
pub(crate) mod quotas;
pub(crate) mod refusals;
pub(crate) mod watch_terminal;
