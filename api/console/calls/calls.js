// Every call of the api that the console makes. A test (tests/tests/console/calls.rs) compares it with the api's own
// description: each call exists, and each field that is read is a field of its answer. Another test
// (api/src/openapi/console_answers.rs) writes `answers.js` beside it, the types of the answers, from the same description.
//
// Convention, since the test reads this file line by line: a call is one line, `name: ['METHOD', 'path', 'fields']`. The name is
// the operation's id in `/openapi.json`. The fields are those that the pages read, with dots; lists and null are passed over.
// Other modules name calls by `pathOf('name', …)`, which reads, `callOf('name', …)` and `ask('name', …)`, and no path of their own.

const CALLS = {
  accept_finding: ['POST', '/v1/findings/{id}/accept', 'id state'],
  begin_console_session: ['POST', '/v1/console/session', 'csrf_token key_id name merchant_id scopes is_on_call ends_at'],
  cancel_job: ['POST', '/v1/jobs/{id}/cancel', 'id state'],
  change_template_state: ['POST', '/v1/templates/{id}/{verb}', 'id state'],
  clone_template: ['POST', '/v1/templates/{id}/clone', 'id'],
  create_api_key: ['POST', '/v1/api-keys', 'key name'],
  create_merchant: ['POST', '/v1/merchants', 'id'],
  create_template: ['POST', '/v1/templates', 'id'],
  delete_template: ['DELETE', '/v1/templates/{id}', ''],
  edit_template: ['PATCH', '/v1/templates/{id}', 'id version'],
  end_console_session: ['DELETE', '/v1/console/session', ''],
  end_drain: ['POST', '/v1/templates/{id}/drain-end', 'epoch'],
  extend_coupon: ['POST', '/v1/coupons/{id}/extend', 'id valid_until'],
  find_coupons: ['GET', '/v1/coupons', 'data.id data.user_id data.status data.used_at data.given_back_by next_cursor unreadable'],
  get_claim_state: ['GET', '/v1/claim-states/{id}', 'status code user_id template_id at claim.coupons.id'],
  get_claim_story: ['GET', '/v1/claim-states/{id}/story', 'read_at late payments.payment_ref payments.confirmed_at payments.actor hops.hop hops.state hops.at hops.took_ms hops.usual_p99_ms hops.late hops.why hops.coupon_id hops.order_ref hops.stock_from hops.stock_to hops.topic hops.partition hops.offset hops.binlog_file hops.binlog_position hops.gtid hops.code'],
  get_console_session: ['GET', '/v1/console/session', 'csrf_token key_id name merchant_id scopes is_on_call ends_at'],
  get_coupon: ['GET', '/v1/coupons/{id}', 'id status user_id template_id claim_id claimed_at valid_from valid_until held_until used_at order_ref given_back_by locked_for.order_ref locked_for.locked_until replaces replaced_by changed_at'],
  get_expiry: ['GET', '/v1/expiry', 'overdue.coupons overdue.more lateness.flips lateness.p99_ms lateness.max_ms next_24_hours.from next_24_hours.coupons next_24_hours.more'],
  get_finding: ['GET', '/v1/findings/{id}', 'id kind state line expected seen coupons money_minor looks first_seen last_seen template_id user_id claim_id epoch version merchant_id decided_at decided_by reason'],
  get_health: ['GET', '/v1/health', 'now leader publish_lag_seconds list_lag_seconds processes gates_not_loaded.template_id gates_not_loaded.opens_at impact.state impact.sentence impact.claims impact.queued_claims impact.payments impact.lists impact.expiry impact.cause impact.action impact.since impact.also'],
  get_job: ['GET', '/v1/jobs/{id}', 'id template_id rows quantity reason created_at state pending outcomes waits_for ended_at'],
  get_ledger: ['GET', '/v1/templates/{id}/ledger', 'data.at data.kind data.quantity data.total_change data.claim_id data.seq data.user_id data.actor data.reason totals.claims totals.stock totals.kinds.kind totals.kinds.quantity next_cursor unreadable'],
  get_readiness: ['GET', '/v1/templates/{id}/readiness', 'sentence ready items.name items.ok items.sentence items.action'],
  get_report: ['GET', '/v1/templates/{id}/report', 'name from to complete answers.requests answers.refused answers.unknown answers.p50_ms answers.p99_ms answers.peak_per_second answers.sold_out_after_ms stock.total stock.landed stock.left coupons.all_counted coupons.unused coupons.used coupons.held coupons.expired coupons.lapsed coupons.cancelled coupons.others coupons.used_percent coupons.expired_percent redemption.redeemed redemption.discount redemption.discount_text redemption.revenue redemption.revenue_text'],
  get_stock: ['GET', '/v1/templates/{id}/stock', 'total stock held confirmed epoch queued_epoch in_flight gate_stock drift'],
  get_template: ['GET', '/v1/templates/{id}', 'id name state version self_redeem stackable claim_mode accept_after lapses_allowed returned_stock warnings total_stock discount.kind discount.currency discount.percent_off discount.amount_off_minor discount.cap_minor discount.minimum_spend_minor discount_text per_user_limit max_per_claim hold_ms claim_starts_at claim_ends_at valid_from valid_until valid_for_ms'],
  get_timeseries: ['GET', '/v1/templates/{id}/timeseries', 'from to step_seconds complete points.at points.landed points.accepted points.refused points.unknown points.p50_ms points.p99_ms'],
  grant_coupons: ['POST', '/v1/templates/{id}/grants', 'id'],
  lift_ban: ['POST', '/v1/templates/{id}/users/{user}/ban/lift', 'user_id'],
  list_api_keys: ['GET', '/v1/api-keys', 'items.id items.name items.scopes items.created_at items.expires_at items.revoked_at items.last_used_at'],
  list_audit: ['GET', '/v1/audit', 'data.id data.at data.action data.target data.key_name data.before data.after next_cursor unreadable'],
  list_bans: ['GET', '/v1/templates/{id}/bans', 'data.user_id data.lapses data.lapses_allowed next_cursor'],
  list_findings: ['GET', '/v1/findings', 'data.id data.kind data.state data.line data.coupons data.looks data.first_seen data.last_seen next_cursor unreadable'],
  list_job_rows: ['GET', '/v1/jobs/{id}/rows', 'data.row data.user_id data.given data.outcome data.claim_id next_cursor unreadable'],
  list_jobs: ['GET', '/v1/jobs', 'data.id data.created_at data.ended_at data.reason data.state data.rows data.quantity data.waits_for next_cursor unreadable'],
  list_late_payments: ['GET', '/v1/late-payments', 'data.claim_id data.payment_ref data.user_id data.code data.refused_at data.lapsed_at data.actor data.confirmed_claim_id next_cursor unreadable'],
  list_merchants: ['GET', '/v1/merchants', 'data.id data.name data.created_at next_cursor unreadable'],
  list_template_claims: ['GET', '/v1/templates/{id}/claims', 'data.id data.claimed_at data.user_id data.quantity data.state next_cursor unreadable'],
  list_template_movements: ['GET', '/v1/templates/{id}/movements', 'data.seq data.created_at data.delta data.delta_stock data.stock data.total data.actor data.reason next_cursor unreadable'],
  list_templates: ['GET', '/v1/templates', 'data.id data.name data.state data.discount_text data.claim_starts_at data.claim_ends_at data.hold_ms data.stock.total data.stock.landed data.stock.left data.stock.used next_cursor unreadable'],
  list_user_coupons: ['GET', '/v1/users/{id}/coupons', 'data.id data.status data.claimed_at data.valid_until data.order_ref data.template.name data.template.discount_text next_cursor unreadable'],
  mark_late_payment_refunded: ['POST', '/v1/late-payments/refunded', 'claim_id'],
  move_stock: ['POST', '/v1/templates/{id}/stock-movements', 'total stock'],
  preview_template: ['POST', '/v1/templates/preview', 'shop.name shop.discount_text shop.claim_starts_at shop.claim_ends_at shop.valid_for_ms shop.valid_until shop.hold_ms shop.per_user_limit shop.total warnings'],
  rebuild_gate: ['POST', '/v1/templates/{id}/gate-rebuild', 'epoch'],
  rebuild_view: ['POST', '/v1/users/{id}/view-rebuild', 'user_id'],
  replace_coupon: ['POST', '/v1/coupons/{id}/replace', 'replacement.id'],
  revoke_api_key: ['DELETE', '/v1/api-keys/{id}', ''],
  revoke_coupon: ['POST', '/v1/coupons/{id}/revoke', 'id status'],
  rotate_api_key: ['POST', '/v1/api-keys/{id}/rotate', 'key name'],
  search: ['GET', '/v1/search', 'items.kind items.id items.name items.template_id items.user_id more'],
  watch_sales: ['GET', '/v1/live', 'now left_out impact.state impact.sentence impact.action templates.id templates.name templates.merchant_id templates.state templates.claim_starts_at templates.claim_ends_at templates.claim_mode templates.gate_loaded templates.total templates.confirmed templates.held templates.in_flight templates.queued templates.left templates.drift templates.last_second.claims templates.last_second.refused'],
  whoami: ['GET', '/v1/whoami', 'key_id'],
};

/** The method and path of a call, with the parts of its path filled in. */
export function callOf(name, parts = {}) {
  const [method, path] = CALLS[name];
  return { method, path: path.replace(/\{(\w+)\}/g, (_, part) => encodeURIComponent(parts[part])) };
}

/** The path of a call that reads, with a query; what is empty of that is left out. */
export function pathOf(name, parts = {}, query = {}) {
  return withQuery(callOf(name, parts).path, query);
}

export function withQuery(path, query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  return text ? `${path}?${text}` : path;
}
