-- readable from 20261127000001
-- A page of a merchant's jobs reads a page, however many jobs the merchant has had, of all states or of one. A job is written
-- by an operator's call and a few times a second while it runs, so the two indexes cost nothing that matters.
alter table job
    add key ix_merchant (merchant_id, id),
    add key ix_merchant_state (merchant_id, state, id),
    algorithm = inplace, lock = none;
