-- How far the announcements of coupons that end soon have come, for each shard and lead time: every
-- coupon up to this entry of the deadline index is announced.
create table expiring_cursor (
    shard        tinyint unsigned not null,
    lead_seconds int unsigned     not null,
    valid_until  datetime(3)      not null,
    id           bigint           not null,
    primary key (shard, lead_seconds)
) engine = innodb;
