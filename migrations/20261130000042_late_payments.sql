-- readable from 20261127000001
-- Payments of held coupons that were refused for good, so that the shop refunds them (docs/decisions/0113). Written before the
-- refusal is answered, never by a payment that confirms. A payment names its claim, so the same payment again finds its row.
create table late_payment (
    merchant_id bigint       not null,
    claim_id    bigint       not null, -- rises with time
    payment_ref varchar(64)  character set utf8mb4 collate utf8mb4_bin not null,
    template_id bigint       not null,
    user_id     bigint       not null,
    coupon_id   bigint       not null, -- the coupon that it was refused for
    refusal     tinyint      not null, -- 0 its hold had lapsed, 1 confirmed by another payment, 2 cancelled
    lapsed_at   datetime(3)  null,     -- of a hold that had lapsed
    actor       varchar(100) not null, -- `key:<id>`, `platform`, or `topic`
    refused_at  datetime(3)  not null, -- the first time
    refunded    tinyint      not null default 0,
    refunded_at datetime(3)  null,
    refunded_by varchar(100) null,
    primary key (merchant_id, claim_id, payment_ref),
    key ix_merchant (merchant_id, refunded, claim_id, payment_ref),
    key ix_template (merchant_id, template_id, refunded, claim_id, payment_ref)
) engine = innodb default charset = utf8mb4;
