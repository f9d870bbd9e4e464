-- readable from 20261127000001
-- Which server the rows were last used on, and which claims its predecessor had answered and lost.

-- Every gate and view begins anew when another server answers than the one named here.
create table primary_server (
    id       tinyint      not null primary key, -- always 1
    server   varchar(80)  not null,             -- server_id; on MySQL also its uuid
    failovers bigint      not null,             -- how many times another server answered
    since    datetime(3)  not null,
    seen     datetime(3)  not null,             -- all that was committed before is on this server; at most minutes ago
    searched tinyint      not null              -- 1: the topic was searched for claims that this failover lost
) engine = innodb default charset = utf8mb4;

-- The server under which the generations were given; null: an earlier version gave them.
alter table view_generation add column server varchar(80) null;

-- Claims that were answered with success and that no server has any more.
create table lost_claim (
    claim_id    bigint      not null primary key,
    template_id bigint      not null,
    user_id     bigint      not null,
    found_at    datetime(3) not null,
    key ix_lost_claim_found (found_at, claim_id),
    key ix_lost_claim_template (template_id, claim_id)
) engine = innodb default charset = utf8mb4;
