-- Who confirmed a payment: `key:<id>`, `platform` for the platform's own key, or `topic` for a message on coupon.payments.
-- Null: it was confirmed before this column was there.
alter table coupon_payment
    add column actor varchar(100) null,
    algorithm = instant;
