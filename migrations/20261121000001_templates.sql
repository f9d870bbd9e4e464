-- What people read and edit. Times are UTC, in milliseconds. Codes have their words in crates/coupon.
create table coupon_template (
    id              bigint       not null primary key,
    merchant_id     bigint       not null,
    name            varchar(200) not null,
    discount_kind   tinyint      not null,
    discount_value  bigint       not null, -- minor units, or hundredths of a percent
    discount_cap    bigint       null,     -- minor units
    minimum_spend   bigint       not null, -- minor units
    currency        varchar(3)   not null,
    per_user_limit  int          not null, -- 0: none, else 1 to 100
    max_per_claim   int          not null,
    claim_starts_at datetime(3)  not null,
    claim_ends_at   datetime(3)  not null,
    valid_from      datetime(3)  null,     -- either these two
    valid_until     datetime(3)  null,
    valid_for_ms    bigint       null,     -- or this one
    state           tinyint      not null, -- 0 draft, 1 published, 2 paused, 3 ended
    version         bigint       not null, -- rises by one with every change
    created_at      datetime(3)  not null,
    changed_at      datetime(3)  not null,
    key ix_merchant (merchant_id, id),
    key ix_window (state, claim_ends_at)
) engine = innodb default charset = utf8mb4;

-- The hot row, narrow and apart, so that landings do not flood the change stream with templates.
create table template_stock (
    template_id bigint  not null primary key,
    total       bigint  not null, -- sum of the movements
    stock       bigint  not null, -- total less what has landed
    epoch       bigint  not null, -- generation of the gate; a landing of another epoch fails
    open        tinyint not null  -- 1: landings are allowed
) engine = innodb;

-- Every top-up and cut, append-only; the gate applies them in seq order, once each.
create table stock_movement (
    template_id bigint       not null,
    seq         bigint       not null,
    delta       bigint       not null,
    reason      varchar(200) not null,
    actor       varchar(100) not null,
    created_at  datetime(3)  not null,
    primary key (template_id, seq)
) engine = innodb default charset = utf8mb4;
