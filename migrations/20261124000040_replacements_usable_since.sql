-- When the coupon that was replaced became usable, if that was not when it was claimed: it had been held, and was confirmed
-- at this time. A validity of a period counts from it, for the replacement too.
alter table coupon_replacement
    add column usable_since datetime(3) null,
    algorithm = instant;
