//! Stored procedures: they run on the server, so that round trips do not limit how fast the binlog grows.

/// Rows of the followed table that a transaction of [`MIXED`] changes: four updates and an insert.
pub(super) const MIXED_ROWS: i64 = 5;

/// `call bench_singles(first id, transactions)`: each transaction inserts a coupon, as a claim does.
pub(super) const SINGLES: &str = "
create procedure bench_singles(first bigint, transactions bigint)
begin
  declare id bigint default first;
  while id < first + transactions do
    insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, status, version,
        expiry_shard, claimed_at, changed_at, valid_from, valid_until, trace_parent)
      values (id, 1 + mod(id, 50), id, 1, id, 1, 0, 1, mod(id, 64), utc_timestamp(3), utc_timestamp(3),
        utc_timestamp(3), utc_timestamp(3) + interval 1 day,
        '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01');
    set id = id + 1;
  end while;
end";

/// `call bench_mixed(first id, transactions, first id to update, how many of them)`: each transaction updates the next
/// four of those coupons, inserts one, and writes a fence.
pub(super) const MIXED: &str = "
create procedure bench_mixed(first bigint, transactions bigint, oldest bigint, old bigint)
begin
  declare id bigint default first;
  declare used bigint;
  while id < first + transactions do
    set used = oldest + 4 * mod(id, old div 4);
    start transaction;
    update user_coupon set status = 1 - status, version = version + 1, changed_at = utc_timestamp(3),
        used_at = utc_timestamp(3), order_ref = concat('order-', id)
      where user_coupon.id between used and used + 3;
    insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, status, version,
        expiry_shard, claimed_at, changed_at, valid_from, valid_until)
      values (id, 1 + mod(id, 50), id, 1, id, 1, 0, 1, mod(id, 64), utc_timestamp(3), utc_timestamp(3),
        utc_timestamp(3), utc_timestamp(3) + interval 1 day);
    insert into claim (template_id, user_id, request_id, id, quantity, state, payload_hash, valid_from,
        valid_until, created_at)
      values (1 + mod(id, 50), id, concat('bench-', id), id, 1, 2, unhex(md5(id)), utc_timestamp(3),
        utc_timestamp(3), utc_timestamp(3));
    commit;
    set id = id + 1;
  end while;
end";
