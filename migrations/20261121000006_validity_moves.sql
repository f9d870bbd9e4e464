-- A template's validity may change while coupons of it are claimed. `terms` is the version of the template
-- at which it last did: a landing of an older version fails, so nothing lands with the old validity after
-- the change.
alter table template_stock
    add column terms bigint not null default 1;

-- The moves of issued coupons to a template's new validity, one for each change that asks for it; the last
-- one counts. Coupons are looked at in the order of uq_number, a chunk at a time.
create table validity_move (
    template_id  bigint      not null,
    version      bigint      not null, -- of the template, from that change on
    valid_from   datetime(3) null,     -- where to: as in coupon_template
    valid_until  datetime(3) null,
    valid_for_ms bigint      null,
    state        tinyint     not null, -- 0 under way, 1 finished, 2 superseded by a later one
    total        bigint      not null, -- coupons issued before the change
    looked_at    bigint      not null, -- coupons looked at so far
    moved        bigint      not null, -- of them, those that were moved
    after_user   bigint      not null, -- the last coupon looked at
    after_number bigint      not null,
    asked_at     datetime(3) not null,
    started_at   datetime(3) null,
    ended_at     datetime(3) null,
    primary key (template_id, version),
    key ix_state (state, template_id)
) engine = innodb;
