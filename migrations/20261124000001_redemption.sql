-- Whether one order may redeem a coupon of this template together with other coupons.
alter table coupon_template add column stackable tinyint not null default 1;

-- What coupons were redeemed for, and which of these redemptions were rolled back: append-only. A redemption stands as
-- long as no row undoes it.
create table redemption (
    id          bigint         not null primary key, -- rises with time; within an order also in order of application
    kind        tinyint        not null, -- 1 redeem, 2 rollback
    undoes      bigint         null,     -- of a rollback: the row of kind 1 that it ends
    merchant_id bigint         not null,
    order_ref   varbinary(256) not null, -- bytes: a text column would ignore case and trailing spaces
    coupon_id   bigint         not null,
    template_id bigint         not null,
    user_id     bigint         not null,
    amount      bigint         null,     -- the order's, in minor units; null: the shop did not say (use of one coupon)
    discount    bigint         null,     -- what this coupon took off it
    currency    varchar(3)     null,
    actor       varchar(100)   not null, -- `platform`, `key:ID`; `user`: the shopper, at a till
    reason      varchar(200)   null,     -- of a rollback
    created_at  datetime(3)    not null,
    unique key uq_undoes (undoes),       -- a redemption is rolled back once
    key ix_order (merchant_id, order_ref, user_id, id),
    key ix_coupon (coupon_id, id),
    key ix_template (template_id, kind, id)
) engine = innodb default charset = utf8mb4;

-- One row for each order that redeemed several coupons together, or was cancelled: its lock, and what was asked for it.
-- A till's orders have none, since shoppers choose those names, and neither have orders of single uses.
create table redemption_order (
    merchant_id  bigint         not null,
    order_ref    varbinary(256) not null, -- bytes, as above
    digest       binary(32)     null,     -- SHA-256 of the request that redeemed its coupons; null: none did
    user_id      bigint         null,
    amount       bigint         null,     -- minor units
    currency     varchar(3)     null,
    redeemed_at  datetime(3)    null,
    cancelled_at datetime(3)    null,     -- from then on it redeems nothing
    created_at   datetime(3)    not null,
    primary key (merchant_id, order_ref)
) engine = innodb default charset = utf8mb4;

-- A coupon that a checkout keeps for its order until then, by this server's clock. At most one row for a coupon.
create table coupon_lock (
    coupon_id    bigint         not null primary key,
    order_ref    varbinary(256) not null,
    locked_until datetime(3)    not null
) engine = innodb;
