-- Queued claims: a claim may be accepted first and land behind a queue.
alter table coupon_template
    add column claim_mode   tinyint not null default 0, -- 0 direct, 1 queued, 2 spill
    add column accept_after tinyint not null default 2; -- of a queued claim: 0 gate, 1 replica, 2 topic

-- From now on `open` has a third value: 0 nothing lands, 1 everything, 2 only claims that were accepted before.
alter table template_stock
    add column queued_epoch bigint  not null default 0, -- generation of the gate whose queued claims land
    add column ever_queued  tinyint not null default 0, -- 1: the mode was ever another than direct
    add column queue_closed tinyint not null default 0, -- 1: after the end or the window, every queued claim has its answer
    add key ix_queue (ever_queued, queue_closed);       -- the queues that are still to be closed

update template_stock set queued_epoch = epoch;

-- What the gate knew when it admitted the claim. Null: the row is older, or the process that landed it did not know.
alter table claim
    add column admitted_at datetime(3) null,
    add column left_after  bigint      null, -- stock that the gate had left behind it
    algorithm = instant;

-- Users with a rejected claim, written with that row. A gate that is rebuilt looks into MySQL before it answers them;
-- to find them among all claims of a template, each claim would pay for an index.
create table rejected_user (
    template_id bigint not null,
    user_id     bigint not null,
    primary key (template_id, user_id)
) engine = innodb;
