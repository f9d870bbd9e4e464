-- Whose templates there are.
create table merchant (
    id         bigint       not null primary key,
    name       varchar(100) not null,
    created_at datetime(3)  not null
) engine = innodb default charset = utf8mb4;

-- The platform's own: the key in OPERATOR_KEY belongs to it, and so does every template made so far.
insert into merchant (id, name, created_at) values (1, 'Platform', utc_timestamp(3));

-- The keys of operators. A secret is 256 random bits and is not kept: only its digest is.
create table api_key (
    id          bigint       not null primary key,
    merchant_id bigint       not null,
    name        varchar(100) not null,
    digest      binary(32)   not null, -- SHA-256 of the whole key
    scopes      tinyint      not null, -- 1 read, 2 operate, 4 admin
    created_at  datetime(3)  not null,
    expires_at  datetime(3)  null,     -- from then on it is not accepted, as was said when it was made
    revoked_at  datetime(3)  null,     -- the same, by an operator; in the future while it is being replaced
    key ix_merchant (merchant_id, id)
) engine = innodb default charset = utf8mb4;

-- What operators did, one row for each action, written in the action's own transaction. Append-only.
create table audit_entry (
    id          bigint       not null primary key, -- rises with time
    merchant_id bigint       not null,             -- whose thing was changed
    key_id      bigint       null,                 -- who did it; null: the platform's own key
    action      varchar(40)  not null,
    target      varchar(60)  not null,             -- path below /v1, e.g. templates/123
    before_json text         null,                 -- as the API shows it; null: there was nothing
    after_json  text         null,
    trace_id    char(32)     null,                 -- of the request's traceparent
    created_at  datetime(3)  not null,
    key ix_merchant (merchant_id, id),
    key ix_target (merchant_id, target, id)
) engine = innodb default charset = utf8mb4;
