-- readable from 20261127000001
-- What a reconciler finds wrong (crates/mysql-store/src/findings), and how far its walks are.

create table finding (
    id          bigint       not null primary key,  -- rises with time
    merchant_id bigint       not null,              -- whose; of what belongs to the platform: 1
    kind        tinyint      not null,
    state       tinyint      not null,
    template_id bigint       not null,              -- 0: it is about no template
    about       tinyint      not null,              -- 0 the template itself, 1 a user, 2 a claim
    about_id    bigint       not null,              -- 0: the template itself
    ended       bigint       not null,              -- 0 while it stands, open, being repaired or accepted; else its id
    epoch       bigint       null,                  -- what was judged
    version     bigint       null,
    expected    varchar(200) not null,
    seen        varchar(200) not null,
    coupons     bigint       not null,              -- how many coupons it is about; 0: no matter of their number
    money       bigint       null,                  -- what they are worth at most, in minor units; null: not known
    line        varchar(500) not null,              -- for people
    looks       bigint       not null,              -- how often it was found
    first_seen  datetime(3)  not null,
    last_seen   datetime(3)  not null,
    decided_at  datetime(3)  null,                  -- when it was last accepted, repaired or overtaken
    decided_by  varchar(64)  null,
    reason      varchar(200) null,
    unique key uq_standing (kind, template_id, about, about_id, ended),
    key ix_finding_merchant (merchant_id, id)
) engine = innodb default charset = utf8mb4 collate = utf8mb4_bin;

-- How far each walk of a reconciler is, so that another one goes on from there.
create table reconcile_walk (
    name        varchar(32)  not null primary key,
    template_id bigint       not null,              -- the last template, and its user or coupon, that were looked at
    after_id    bigint       not null,
    looked      bigint       not null,              -- how many were looked at since begun_at
    begun_at    datetime(3)  not null,
    passed_at   datetime(3)  null                   -- when the last whole walk ended
) engine = innodb default charset = utf8mb4 collate = utf8mb4_bin;
