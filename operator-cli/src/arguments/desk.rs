//! Arguments of a support desk: single coupons, grants, jobs.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Page, id};

#[derive(Subcommand)]
pub(crate) enum CouponsCommand {
    /// Shows a coupon of one of your templates.
    Show(CouponId),
    /// Finds coupons by order, user or template; one of them at least.
    Find {
        /// The order that uses the coupon, or was the last to give it back.
        #[arg(long, value_name = "TEXT")]
        order_ref: Option<String>,
        /// The user.
        #[arg(long, value_name = "ID", value_parser = id)]
        user: Option<i64>,
        /// The template.
        #[arg(long, value_name = "ID", value_parser = id)]
        template: Option<i64>,
        /// Only coupons of this status.
        #[arg(long, value_parser = ["unused", "used", "expired", "cancelled", "held", "lapsed"])]
        status: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Revokes an unused coupon, for good. Its unit of stock stays gone.
    Revoke {
        #[command(flatten)]
        coupon: CouponId,
        #[command(flatten)]
        why: Why,
    },
    /// Lets an unused coupon end later.
    Extend {
        #[command(flatten)]
        coupon: CouponId,
        /// The new end, e.g. `2027-01-01T00:00:00Z`.
        #[arg(long, value_name = "TIME")]
        valid_until: String,
        #[command(flatten)]
        why: Why,
    },
    /// Revokes an unused coupon and issues one in its place, at once.
    Replace {
        #[command(flatten)]
        coupon: CouponId,
        #[command(flatten)]
        why: Why,
    },
}

#[derive(Args)]
pub(crate) struct GrantsArguments {
    /// The template.
    #[arg(value_name = "TEMPLATE", value_parser = id)]
    pub(crate) template: i64,
    /// A file with a user id in each line; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Coupons for each user.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) quantity: u32,
    #[command(flatten)]
    pub(crate) why: Why,
    /// Adds as many coupons to the total first, instead of granting from the stock.
    #[arg(long)]
    pub(crate) add_stock: bool,
    /// Confirms what it grants. Needed where the template holds its coupons: what nobody pays for would lapse.
    #[arg(long)]
    pub(crate) confirmed: bool,
    /// Names the job: the same name again is the same job, however often. Default: a new name, which is printed.
    #[arg(long, value_name = "NAME")]
    pub(crate) request_id: Option<String>,
    /// Returns once the job has begun, instead of waiting for its end.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[derive(Subcommand)]
pub(crate) enum JobsCommand {
    /// Lists jobs, the newest first.
    List {
        /// Only jobs in this state.
        #[arg(long, value_parser = ["running", "cancelling", "finished", "cancelled"])]
        state: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Shows a job and its progress.
    Show(JobId),
    /// Lists what became of a job's rows, in their order.
    Rows {
        #[command(flatten)]
        job: JobId,
        /// Only rows of this outcome, e.g. `limit_reached`.
        #[arg(long)]
        outcome: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Waits for a job's end.
    Wait(JobId),
    /// Cancels a job. What was granted stays granted.
    Cancel {
        #[command(flatten)]
        job: JobId,
        #[command(flatten)]
        why: Why,
    },
}

#[derive(Args)]
pub(crate) struct CouponId {
    /// The coupon's id.
    #[arg(value_name = "ID", value_parser = id)]
    pub(crate) coupon_id: i64,
}

#[derive(Args)]
pub(crate) struct JobId {
    /// The job's id.
    #[arg(value_name = "ID", value_parser = id)]
    pub(crate) job_id: i64,
}

#[derive(Args)]
pub(crate) struct Why {
    /// The reason, for people who read the audit record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}
