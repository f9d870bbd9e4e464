-- A page of what a merchant sees of one user reads a page, however many coupons the user has. Before, all of the user's rows
-- were read and sorted. No other index serves: ix_user and ix_ends begin with the status, hold the rows of all merchants, and
-- a cursor that stepped over those of another merchant would tell of them.
--
-- What it costs: a claim writes one more index; a use and a flip do not, since none of the columns ever changes. It is
-- built while the table is written to.
alter table user_coupon
    add key ix_user_merchant (user_id, merchant_id, id),
    algorithm = inplace, lock = none;
