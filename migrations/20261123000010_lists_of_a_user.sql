-- A page of a user's coupons reads a page, however many the user has. Before, a cold list was read whole, and the
-- expired ones were looked for among all the unused.
--
-- ix_user keeps its name, since processes of the version before name it, and gets the list's order: the latest claim
-- first, and of one millisecond by template and id. It serves lists, used coupons and rebuilds of views.
-- ix_ends has what has ended, the latest end first, flipped or not.
--
-- What it costs: a claim, a use and a flip each write one more index, and each coupon takes 92 bytes more (measured:
-- docs/decisions/0033). Both are built while the table is written to.
alter table user_coupon
    drop key ix_user,
    add key ix_user (user_id, status, claimed_at, template_id, id),
    add key ix_ends (user_id, status, valid_until, id),
    algorithm = inplace, lock = none;
