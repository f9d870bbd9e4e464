-- Grants each process what it needs in MySQL or MariaDB, and no more, so that one process's password gives no rights of
-- another. An administrator runs it after `api --migrate`, and after each upgrade: the tables that it names must exist.
-- The users are made before; docs/operate/install.md and ops/mysql-users.sh show how. Database and users are called `coupon…`
-- throughout: replace the names where yours are others.

-- Requests, claims, operators' changes.
grant select on coupon.* to 'coupon_api'@'%';
-- Deletes: a draft with its rows, and nothing else of theirs.
grant insert, update, delete on coupon.coupon_template to 'coupon_api'@'%';
grant insert, update, delete on coupon.template_stock to 'coupon_api'@'%';
grant insert, delete on coupon.stock_movement to 'coupon_api'@'%';
grant insert on coupon.claim to 'coupon_api'@'%';
grant insert, update on coupon.user_coupon to 'coupon_api'@'%';
grant insert, update, delete on coupon.validity_move to 'coupon_api'@'%';
grant insert, update on coupon.worker_lease to 'coupon_api'@'%';
grant insert, update on coupon.lease to 'coupon_api'@'%';
grant insert, update on coupon.view_generation to 'coupon_api'@'%';
-- What a failover leaves behind.
grant insert, update on coupon.primary_server to 'coupon_api'@'%';
grant insert on coupon.lost_claim to 'coupon_api'@'%';
grant insert, update on coupon.merchant to 'coupon_api'@'%';
grant insert, update on coupon.api_key to 'coupon_api'@'%';
grant insert, update on coupon.audit_entry to 'coupon_api'@'%';
grant insert, update on coupon.merchant_quota to 'coupon_api'@'%';
grant insert, update on coupon.job to 'coupon_api'@'%';
grant insert, update on coupon.job_row to 'coupon_api'@'%';
grant insert on coupon.coupon_replacement to 'coupon_api'@'%';
grant insert, update, delete on coupon.idempotent_request to 'coupon_api'@'%';
grant insert on coupon.redemption to 'coupon_api'@'%';
grant insert, update on coupon.redemption_order to 'coupon_api'@'%';
grant insert, update, delete on coupon.coupon_lock to 'coupon_api'@'%';
grant insert, update on coupon.user_lapse to 'coupon_api'@'%';
grant insert on coupon.coupon_payment to 'coupon_api'@'%';
grant insert, update on coupon.late_payment to 'coupon_api'@'%';
-- Findings that an operator accepts.
grant update on coupon.finding to 'coupon_api'@'%';

-- Leases of the relay's workers. The gate and the topic are all else that it needs.
grant select on coupon._sqlx_migrations to 'coupon_relay'@'%';
grant select, insert, update on coupon.lease to 'coupon_relay'@'%';

-- Landings, rejections and fences of queued claims; payments of held ones.
grant select on coupon._sqlx_migrations to 'coupon_lander'@'%';
grant select on coupon.coupon_template to 'coupon_lander'@'%';
grant select on coupon.stock_movement to 'coupon_lander'@'%';
grant select, update on coupon.template_stock to 'coupon_lander'@'%';
grant select, insert on coupon.claim to 'coupon_lander'@'%';
grant select, insert, update on coupon.user_coupon to 'coupon_lander'@'%';
grant select, insert on coupon.rejected_user to 'coupon_lander'@'%';
grant select, insert on coupon.coupon_payment to 'coupon_lander'@'%';
grant insert on coupon.late_payment to 'coupon_lander'@'%';
grant select on coupon.coupon_replacement to 'coupon_lander'@'%';
grant select, insert, update on coupon.worker_lease to 'coupon_lander'@'%';

-- The binlog, and the followed tables for snapshots. MariaDB calls `replication client` BINLOG MONITOR, and takes this
-- name too. MySQL alone has `xa_recover_admin`, which shows what is prepared by XA and no more; MariaDB shows it to everybody.
grant select on coupon.coupon_template to 'coupon_tailer'@'%';
grant select on coupon.stock_movement to 'coupon_tailer'@'%';
grant select on coupon.user_coupon to 'coupon_tailer'@'%';
grant replication slave, replication client /*!80000 , xa_recover_admin */ on *.* to 'coupon_tailer'@'%';

-- Stock movements that a gate lacks, and the generation of the views.
grant select on coupon._sqlx_migrations to 'coupon_consumer'@'%';
grant select on coupon.stock_movement to 'coupon_consumer'@'%';
grant select, insert, update on coupon.view_generation to 'coupon_consumer'@'%';

-- Ends of coupons and what comes back of holds, their announcements, and moves to a new validity.
grant select on coupon._sqlx_migrations to 'coupon_worker'@'%';
grant select, update on coupon.user_coupon to 'coupon_worker'@'%';
grant select on coupon.coupon_template to 'coupon_worker'@'%';
grant select, update on coupon.template_stock to 'coupon_worker'@'%';
grant select, insert on coupon.stock_movement to 'coupon_worker'@'%';
grant select, insert, update on coupon.user_lapse to 'coupon_worker'@'%';
grant select, insert, update on coupon.expiring_cursor to 'coupon_worker'@'%';
grant select, update on coupon.validity_move to 'coupon_worker'@'%';
grant select on coupon.coupon_payment to 'coupon_worker'@'%';
grant select on coupon.coupon_replacement to 'coupon_worker'@'%';

-- `verify` reads, and asks how far the binlog is.
grant select on coupon.* to 'coupon_verify'@'%';
grant replication client on *.* to 'coupon_verify'@'%';
