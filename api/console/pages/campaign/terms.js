// What a campaign promises, in words.

import { html } from '../../core/view.js';
import { count } from '../../core/numbers.js';
import { duration, time, zoneName } from '../../core/times.js';

const MODES = {
  direct: 'Each claim is answered once it has landed.',
  queued: 'Claims are accepted at once, and land a moment or minutes later.',
  spill: 'Each claim is answered once it has landed; beyond what MySQL lands, claims are accepted and land later.',
};

export function Terms({ sale }) {
  const rows = [
    ['Discount', sale.discount_text],
    ['Total', count(sale.total)],
    ['Limit for a user', sale.per_user_limit === 0 ? 'none' : count(sale.per_user_limit)],
    ['In one claim', `at most ${count(sale.max_per_claim)}`],
    ['Open', `${time(sale.claim_starts_at)} to ${time(sale.claim_ends_at)}`],
    ['Valid', sale.valid_for_ms ? `${duration(sale.valid_for_ms)} from the claim on` : `${time(sale.valid_from)} to ${time(sale.valid_until)}`],
    ['Held for payment', sale.hold_ms ? duration(sale.hold_ms) : 'no'],
    ['Lapses allowed', sale.lapses_allowed ? count(sale.lapses_allowed) : 'any number'],
    ['What comes back', sale.returned_stock === 'retire' ? 'leaves the total' : 'is sold again'],
    ['Used at a till', sale.self_redeem ? 'by the shopper' : 'by the shop only'],
    ['With other coupons', sale.stackable ? 'in the same order' : 'alone in its order'],
    ['Answers', MODES[sale.claim_mode] || sale.claim_mode],
    ['Id', sale.id], ['Version', sale.version],
  ];
  return html`<section class="panel" aria-label="Terms">
    <dl class="terms">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <p class="help">Times are those of ${zoneName}.</p>
  </section>`;
}
