// A claim: what became of it, and its way.

import { html } from '../../core/view.js';
import { useLoad } from '../../core/load.js';
import { pathOf } from '../../calls/calls.js';
import { to } from '../../core/router.js';
import { time } from '../../core/times.js';
import { CampaignLink } from '../../parts/campaign_link.js';
import { Chip } from '../../parts/chips.js';
import { Read } from '../../parts/problem.js';
import { Story } from './story.js';

export function Claim({ id, query }) {
  const state = useLoad(pathOf('get_claim_state', { id }, { template: query.template }));
  const isMissing = state.problem !== null && state.problem.status === 404;
  return html`<${Read} of=${state}>${(data) => html`
    <section class="panel"><dl class="terms">
      <div><dt>State</dt><dd><${Chip} word=${data.status} /> ${data.code && html`<code>${data.code}</code>`}</dd></div>
      ${data.user_id && html`<div><dt>User</dt><dd><a href=${to(['customer', 'user', data.user_id])}>${data.user_id}</a></dd></div>`}
      <div><dt>Campaign</dt><dd><${CampaignLink} id=${data.template_id} /></dd></div>
      <div><dt>When</dt><dd>${time(data.at)}</dd></div>
      ${data.claim && html`<div><dt>Coupons</dt><dd>${couponsOf(data.claim).map((coupon) => html`<a key=${coupon} href=${to(['customer', 'coupon', coupon])}>${coupon}</a> `)}</dd></div>`}
    </dl></section>`}<//>
    ${!isMissing && html`<${Story} claim=${id} template=${query.template} />`}`;
}

function couponsOf(claim) {
  return claim.coupons.map((coupon) => coupon.id);
}
