-- Lists of templates in the order of their windows, of one merchant or of all. Templates are few and seldom written.
alter table coupon_template
    add key ix_starts (claim_starts_at, id),
    add key ix_ends (claim_ends_at, id),
    add key ix_merchant_starts (merchant_id, claim_starts_at, id),
    add key ix_merchant_ends (merchant_id, claim_ends_at, id),
    algorithm = inplace, lock = none;

-- How many coupons of a template are used, without a look at the others (docs/decisions/0054). A claim appends to it,
-- since its coupons have the highest ids of their template; a use and a flip move one entry. It is built while the
-- table is written to.
alter table user_coupon
    add key ix_template_status (template_id, status),
    algorithm = inplace, lock = none;
