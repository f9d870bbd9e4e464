-- Holds: a claim may issue coupons that lapse unless they are confirmed in time (docs/decisions/0080).
alter table coupon_template
    add column hold_ms        bigint  not null default 0, -- 0: claims are confirmed at once
    add column lapses_allowed int     not null default 0, -- lapses after which a user is refused; 0: never
    add column returned_stock tinyint not null default 0, -- of what comes back: 0 resell, 1 retire
    algorithm = instant;

alter table claim
    add column held_until datetime(3) null, -- as issued; null: not held
    algorithm = instant;

-- Status 4 is held, 5 lapsed; `valid_until` of a held coupon is the end of its hold. A coupon that gave its unit back has
-- its own id as its number, beyond every limit, and keeps the one it was issued with here. Null: it gave nothing back.
alter table user_coupon
    add column issued_no bigint null,
    algorithm = instant;

-- A return is a movement too: its stock rises, and users' numbers are free again, in the order of seq.
alter table stock_movement
    add column kind        tinyint not null default 0, -- 0 change of the total, 1 return, 2 lift of a ban
    add column delta_stock bigint  null,               -- null: delta, as of every change of the total
    add column returned    varchar(8000) character set ascii null, -- crates/coupon/src/returned.rs
    algorithm = instant;

-- How often each user let holds of a template lapse, as of the movement `seq`.
create table user_lapse (
    template_id bigint not null,
    user_id     bigint not null,
    count       int    not null,
    seq         bigint not null,
    primary key (template_id, user_id)
) engine = innodb;

-- The guard of payments: one confirmation per reference of a merchant, and its answer.
create table coupon_payment (
    merchant_id  bigint           not null,
    payment_ref  varchar(64)      character set utf8mb4 collate utf8mb4_bin not null,
    claim_id     bigint           not null,
    coupons      varchar(2400)    character set ascii not null, -- ids, ascending, separated by commas
    confirmed_at datetime(3)      not null,
    primary key (merchant_id, payment_ref),
    key ix_claim (claim_id)
) engine = innodb default charset = utf8mb4;
