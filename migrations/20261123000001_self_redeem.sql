-- Whether a shopper may redeem a coupon of this template with his own token (a coupon shown at a till). Otherwise only
-- the shop redeems, with a key of scope `redeem`.
alter table coupon_template add column self_redeem tinyint not null default 0;
