-- The permanent idempotency guard. A fence is a void row under the key `~<id>`: it takes UNIQUE(id),
-- so that admission can never land, and it never sits on the client's key.
create table claim (
    template_id  bigint        not null,
    user_id      bigint        not null,
    request_id   varbinary(64) not null, -- bytes: a text column would ignore trailing spaces
    id           bigint        not null, -- the admission
    quantity     int           not null,
    state        tinyint       not null, -- 1 landed, 2 void, 3 rejected
    reason       tinyint       null,
    payload_hash binary(16)    not null,
    valid_from   datetime(3)   not null, -- as issued: the answer is made of columns that never change
    valid_until  datetime(3)   not null,
    created_at   datetime(3)   not null,
    primary key (template_id, user_id, request_id),
    unique key uq_claim_id (id)
) engine = innodb;

-- One coupon of one user. Rows are never deleted.
create table user_coupon (
    id           bigint           not null primary key,
    template_id  bigint           not null,
    user_id      bigint           not null,
    claim_no     bigint           not null, -- 1 to the limit; the coupon's id where there is no limit
    claim_id     bigint           not null,
    merchant_id  bigint           not null,
    status       tinyint          not null, -- 0 unused, 1 used, 2 expired
    version      bigint           not null,
    expiry_shard tinyint unsigned not null, -- user_id mod 64
    claimed_at   datetime(3)      not null,
    changed_at   datetime(3)      not null,
    valid_from   datetime(3)      not null,
    valid_until  datetime(3)      not null,
    used_at      datetime(3)      null,
    order_ref    varchar(64)      null,
    trace_parent varchar(55)      null,
    unique key uq_number (template_id, user_id, claim_no), -- the database itself enforces the limit
    key ix_user (user_id, status, id),                     -- pages and rebuilds of the view
    key ix_deadline (expiry_shard, status, valid_until, id) -- the deadline index
) engine = innodb default charset = utf8mb4;

-- No change can slip past the view: derived copies apply what is newer by version.
create trigger user_coupon_version before update on user_coupon for each row
    if new.version <> old.version + 1 then
        signal sqlstate '45000' set message_text = 'user_coupon: version must rise by one';
    end if;
