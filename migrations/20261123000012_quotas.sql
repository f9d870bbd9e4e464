-- What a merchant has had of what is given by the hour, in the hour that it last had some.
create table merchant_quota (
    merchant_id bigint      not null,
    quota       varchar(30) not null,
    began_at    datetime(3) not null, -- the hour
    used        bigint      not null,
    primary key (merchant_id, quota)
) engine = innodb default charset = utf8mb4;

-- When a key was last accepted, to the minute or so.
alter table api_key add column last_used_at datetime(3) null;
