-- Grants as jobs: coupons for a list of users, landed like claims, row by row (crates/mysql-store/src/operators/job.rs).
create table job (
    id           bigint        not null primary key, -- rises with time
    merchant_id  bigint        not null,
    template_id  bigint        not null,
    request_key  varbinary(64) not null,             -- its Idempotency-Key: one job for each, for ever
    digest       binary(32)    not null,             -- SHA-256 of what was asked for, and of who did
    quantity     int           not null,             -- coupons for each row
    reason       varchar(200)  not null,
    actor        varchar(100)  not null,
    key_id       bigint        null,                 -- who asked; null: the platform's own key
    from_stock   tinyint       not null,
    added        bigint        not null,             -- coupons added to the total for it
    total_rows   int           not null,
    state        tinyint       not null,             -- 0 running, 1 cancelling, 2 finished, 3 cancelled
    after_row    int           not null,             -- the last row of this round that was tried
    waits_for    varchar(40)   null,                 -- code of what its rows are kept from
    owner        varchar(100)  null,                 -- who works on it, until then by this server's clock
    owned_until  datetime(3)   null,
    served_at    datetime(3)   not null,             -- when it last had its turn
    next_at      datetime(3)   not null,             -- when it may have its next
    created_at   datetime(3)   not null,
    ended_at     datetime(3)   null,
    unique key uq_request (merchant_id, request_key),
    key ix_state (state, merchant_id, served_at)
) engine = innodb default charset = utf8mb4;

-- One user of a job. A row that is no user id, or is one for the second time, has its outcome from the beginning.
create table job_row (
    job_id   bigint      not null,
    row_no   int         not null, -- 1 for the first
    user_id  bigint      null,     -- null: it is no id
    given    varchar(64) null,     -- what it is instead
    outcome  tinyint     not null, -- 0 pending, 1 granted, 2 duplicate, 3 no user id, …
    claim_id bigint      null,     -- of a granted one
    primary key (job_id, row_no),
    key ix_outcome (job_id, outcome, row_no)
) engine = innodb default charset = utf8mb4;

-- Which coupon took the place of a revoked one. It took no stock, since the unit of the revoked one is gone: so
-- total - stock = landed = coupons - replacements. The keys make one replacement of each coupon, and no more.
create table coupon_replacement (
    coupon_id      bigint      not null primary key, -- the revoked one
    replacement_id bigint      not null,
    template_id    bigint      not null,
    created_at     datetime(3) not null,
    unique key uq_replacement (replacement_id),
    key ix_template (template_id)
) engine = innodb;

-- Support finds a coupon by its order. Built while the table is written to.
alter table user_coupon
    add key ix_order (merchant_id, order_ref, id),
    algorithm = inplace, lock = none;
