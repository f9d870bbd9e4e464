-- Requests of operators that were answered under an Idempotency-Key of theirs: one that is sent again is answered the
-- same and does nothing twice. A row is written in the transaction of what it asks for, and goes after some days
-- (crates/mysql-store/src/idempotency.rs).
create table idempotent_request (
    merchant_id bigint        not null, -- who asks
    route       binary(16)    not null, -- the first half of SHA-256 of method and path
    request_key varbinary(64) not null, -- bytes, as in claim
    digest      binary(32)    not null, -- SHA-256 of the body, of If-Match and of who sends it
    status      smallint      null,     -- of the answer; null: what is done outside MySQL has not come to its end
    head        varchar(200)  null,     -- headers of the answer, one in a line
    body        text          null,     -- of the answer; the secret of a key stands in it sealed
    audit_id    bigint        null,     -- of what is done outside MySQL: its line of the record
    created_at  datetime(3)   not null,
    primary key (merchant_id, route, request_key),
    key ix_created (created_at)
) engine = innodb default charset = utf8mb4;
