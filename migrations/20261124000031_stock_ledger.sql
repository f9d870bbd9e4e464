-- What changed the stock of each template, without a row that a claim would have to write for it: the stock is the sum of
-- `quantity` over it at every moment. A return of several users' coupons names none of them here; its movement lists them.
create or replace sql security invoker view stock_ledger
    (template_id, at, kind, quantity, claim_id, seq, user_id, actor, reason) as
select template_id, created_at, 'claim', cast(-quantity as signed), id, cast(null as signed), user_id, null, null
from claim where state = 1
union all
select template_id, created_at,
    case kind when 0 then 'total' when 1 then 'return' when 2 then 'lift' end,
    coalesce(delta_stock, delta), cast(null as signed), seq,
    if(locate(',', returned) = 0, cast(substring_index(returned, '/', 1) as signed), null), actor, reason
from stock_movement;
