//! Templates with holds, held coupons, and what must be true of them once they lapsed.

use std::{collections::BTreeSet, ops::Range};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{HoldTerms, Lapses, ReturnedStock, Template, TemplateId, TemplateState};
use mysql_store::{
    MySqlConnection, connect,
    stock::{self, Kind, Movement},
    template, verify,
};
use testkit::{CouponRow, STATE_MAX, insert_coupons, sql_time};
use tokio::time::{Instant, sleep};

use crate::harness::Harness;

/// Stock of each template before any claim.
pub(crate) const STOCK: i64 = 100_000;

/// Reason of what tests cancel.
pub(crate) const CANCELLED: &str = "a race";

/// Polling interval.
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

impl Harness {
    /// Publishes a template whose coupons are held, with [`STOCK`].
    pub(crate) async fn template(&mut self, id: i64, returned_stock: ReturnedStock) {
        let now = self.now().await;
        let hold = Some(TimeDelta::hours(1));
        let draft = Template {
            hold: HoldTerms { hold, lapses_allowed: 3, returned_stock },
            ..testkit::draft(TemplateId(id), now)
        };
        let connection = &mut self.connection;
        template::create(connection, &draft, STOCK, "test", now).await.unwrap();
        let published = TemplateState::Published;
        assert!(template::change_state(connection, &draft, published, now).await.unwrap());
    }

    /// Lets the users 1000 + id hold a coupon each of a template, and takes them from its stock. The claim of each has
    /// the coupon's id.
    pub(crate) async fn hold(&mut self, template: i64, ids: Range<i64>, until: DateTime<Utc>) {
        let row = |id| held(id, 1_000 + id, template, until);
        self.hold_rows(template, ids.map(row).collect()).await;
    }

    /// Like [`Self::hold`], for users of the shard of [`crate::harness::SHARD`].
    pub(crate) async fn hold_in_shard(
        &mut self,
        template: i64,
        ids: Range<i64>,
        until: DateTime<Utc>,
    ) {
        let row = |id: i64| held(id, 64 * id + i64::from(crate::harness::SHARD), template, until);
        self.hold_rows(template, ids.map(row).collect()).await;
    }

    async fn hold_rows(&mut self, template: i64, rows: Vec<CouponRow>) {
        let taken = rows.len();
        let insert = insert_coupons(rows);
        let take = format!(
            "update template_stock set stock = stock - {taken} where template_id = {template}"
        );
        let sql = format!("begin; {insert}; {take}; commit");
        verify::execute(&mut self.connection, &sql).await.unwrap();
    }

    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        verify::number(&mut self.connection, sql).await.unwrap()
    }

    pub(crate) async fn lapsed(&mut self) -> i64 {
        self.number("select count(*) from user_coupon where status = 5").await
    }

    /// Waits until exactly that many coupons have lapsed, as long as some lapse, and none before its deadline by
    /// MySQL's clock.
    pub(crate) async fn until_lapsed(&mut self, lapsed: i64) {
        let early = "select count(*) from user_coupon \
                     where status = 5 and valid_until > utc_timestamp(3)";
        let mut before = 0;
        let mut moved = Instant::now();
        loop {
            assert_eq!(self.number(early).await, 0, "lapsed before the deadline");
            let now = self.lapsed().await;
            if now >= lapsed {
                assert_eq!(now, lapsed);
                return;
            }
            if now > before {
                (before, moved) = (now, Instant::now());
            }
            assert!(moved.elapsed() < STATE_MAX, "{now} of {lapsed} have lapsed");
            sleep(LOOK).await;
        }
    }

    /// Asserts, from the rows alone, that each coupon of a template that lapsed, or was cancelled, gave its unit and
    /// its number back once.
    pub(crate) async fn books_balance(&mut self, template: i64) {
        let of = format!("where template_id = {template}");
        let lapsed = format!("select count(*) from user_coupon {of} and status = 5");
        let lapsed = self.number(&lapsed).await;
        // I15.
        let moved = "sum(coalesce(delta_stock, delta))";
        let moved = format!("(select {moved} from stock_movement {of})");
        let landed = format!("(select count(*) from user_coupon {of})");
        let short =
            format!("select cast(stock - ({moved} - {landed}) as signed) from template_stock {of}");
        assert_eq!(self.number(&short).await, 0, "stock is not its movements less what landed");
        let short = format!(
            "select cast(total - (select sum(delta) from stock_movement {of}) as signed) \
             from template_stock {of}"
        );
        assert_eq!(self.number(&short).await, 0, "total");
        // A returned coupon has its id as number, and keeps the number that it gave back.
        let odd = format!(
            "select count(*) from user_coupon {of} and if(status in (3, 5), \
             claim_no <> id or issued_no is null or issued_no <> 1 or version <> 2 \
             or (changed_at < valid_until) <> (status = 3), issued_no is not null)"
        );
        assert_eq!(self.number(&odd).await, 0, "numbers");
        let counted =
            format!("select cast(coalesce(sum(count), 0) as signed) from user_lapse {of}");
        assert_eq!(self.number(&counted).await, lapsed, "lapses of users");
        let cancelled = format!("select count(*) from user_coupon {of} and status = 3");
        let cancelled = self.number(&cancelled).await;
        self.movements_tell(template, lapsed, cancelled).await;
    }

    /// Asserts that the movements give back each number once, and say who did it.
    async fn movements_tell(&mut self, template: i64, lapsed: i64, cancelled: i64) {
        let all = self.movements(TemplateId(template)).await;
        let mut freed = BTreeSet::new();
        let mut counted = 0;
        assert_eq!((all[0].kind, all[0].delta), (Kind::Total, STOCK), "the first total");
        for (seq, movement) in (1..).zip(&all).skip(1) {
            assert_eq!((movement.seq, movement.kind), (seq, Kind::Return), "{movement:?}");
            let is_lapse = movement.actor == "deadline";
            assert_eq!(&*movement.reason, if is_lapse { "lapsed" } else { CANCELLED });
            let mut coupons = 0;
            for one in &movement.returned {
                let Lapses::Add(lapses) = one.lapses else { panic!("{movement:?}") };
                assert_eq!(i64::from(lapses), if is_lapse { one.numbers.len() as i64 } else { 0 });
                coupons += one.numbers.len() as i64;
                for number in &one.numbers {
                    assert!(freed.insert((one.user, *number)), "{} {number} twice", one.user);
                }
            }
            assert_eq!(movement.delta_stock - movement.delta, coupons, "{movement:?}");
            counted += if is_lapse { coupons } else { 0 };
        }
        assert_eq!((counted, freed.len() as i64), (lapsed, lapsed + cancelled));
    }

    async fn movements(&mut self, template: TemplateId) -> Vec<Movement> {
        let mut all: Vec<Movement> = Vec::new();
        loop {
            let last = all.last().map_or(0, |movement| movement.seq);
            let page = stock::movements_after(&mut self.connection, template, last).await.unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    pub(crate) async fn another(&self) -> MySqlConnection {
        connect::single(&self.scope.endpoints.database_url).await.unwrap()
    }
}

fn held(id: i64, user: i64, template_id: i64, until: DateTime<Utc>) -> CouponRow {
    let valid_until = sql_time(until);
    CouponRow { template_id, claim_no: 1, status: 4, valid_until, ..CouponRow::unused(id, user) }
}
