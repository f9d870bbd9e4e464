-- A movement is asked for under a key, so that a request sent twice moves the stock once. total_after
-- and stock_after are what the first answer said, so that every other one says the same.
alter table stock_movement
    add column request_id  varbinary(64) null, -- bytes, as in claim; null: the template's creation
    add column total_after bigint        null,
    add column stock_after bigint        null,
    add unique key uq_request (template_id, request_id);
