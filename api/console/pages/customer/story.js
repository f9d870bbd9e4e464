// The way of a claim, hop by hop, with the hop that was late.

import { html } from '../../core/view.js';
import { useLoad } from '../../core/load.js';
import { pathOf } from '../../calls/calls.js';
import { to } from '../../core/router.js';
import { duration, time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Read } from '../../parts/problem.js';
import { Runbook } from '../../parts/runbook.js';
import { isOnCall } from '../../core/session.js';

const WORDS = {
  received: 'Received by the api', admitted: 'Admitted by the gate', relayed: 'Relayed to the topic of claims', taken: 'Taken by a lander', landed: 'Landed in MySQL',
  rejected: 'Rejected', given_up: 'Given up', lost: 'Lost by a failover', published: 'Published as a change', visible: 'In the user’s list',
  armed: 'Its deadline is known', redeemed: 'Used', expired: 'Expired', cancelled: 'Cancelled',
};

/** Where to read on about a hop that is late: a section of the runbook. */
const SECTIONS = {
  relayed: 'OutboxNotRelayed', taken: 'ClaimLanderBehind', landed: 'LandingSlow', published: 'TailerBehind', visible: 'ConsumerBehind',
  expired: 'ExpiryLate',
};

export function Story({ claim, template, coupon }) {
  const story = useLoad(pathOf('get_claim_story', { id: claim }, { template }));
  return html`<section class="panel" aria-label="Timeline">
    <header class="panel-head"><h2>Timeline</h2><button class="link" onClick=${story.again}>Read again</button></header>
    <${Read} of=${story}>${(data) => html`<${Hops} story=${data} coupon=${coupon} />`}<//>
  </section>`;
}

function Hops({ story, coupon }) {
  const mine = story.hops.filter((hop) => !hop.coupon_id || !coupon || hop.coupon_id === coupon);
  const late = story.late.length > 0;
  return html`
    ${late && html`<p class="note warn">Late: ${story.late.map((name) => WORDS[name] || name).join(', ')}.</p>`}
    <ol class="timeline">
      ${mine.map((hop, at) => html`<${Hop} key=${hop.hop + (hop.coupon_id || '') + at} hop=${hop} />`)}
    </ol>
    ${story.payments.length > 0 && html`<h3>Payments</h3><ul class="reasons">${story.payments.map((payment) => html`<li key=${payment.payment_ref}>
      <span>${payment.payment_ref}</span><b>${time(payment.confirmed_at)}</b><span class="muted small">${payment.actor || ''}</span></li>`)}</ul>`}
    <p class="help">Read ${time(story.read_at)}.</p>`;
}

function Hop({ hop }) {
  return html`<li class="hop ${hop.state} ${hop.late ? 'late' : ''}">
    <span class="hop-mark" aria-hidden="true"></span>
    <div>
      <p><b>${WORDS[hop.hop] || hop.hop}</b>${' '}
        ${hop.state !== 'done' && html`<${Chip} word=${hop.state} kind=${{ unknown: 'hatched', pending: 'info', skipped: 'plain' }[hop.state]} />`}
        ${hop.late && html`<${Chip} text="late" kind="warn" />`}</p>
      <p class="small muted">${hop.at ? time(hop.at, 'millis') : hop.state === 'done' ? 'time not known' : ''}
        ${hop.took_ms !== null && html` · took ${duration(hop.took_ms)}`}
        ${hop.usual_p99_ms !== null && html` · usual at most ${duration(hop.usual_p99_ms)}`}</p>
      ${hop.why && html`<p class="small">${hop.why}</p>`}
      ${hop.order_ref && html`<p class="small">Order <a href=${to(['customer', 'order', hop.order_ref])}>${hop.order_ref}</a></p>`}
      ${hop.late && isOnCall() && SECTIONS[hop.hop] && html`<p class="small"><a href="#/health">Health</a> <${Runbook} section=${SECTIONS[hop.hop]} /></p>`}
      <${Traces} hop=${hop} />
    </div>
  </li>`;
}

function Traces({ hop }) {
  const said = [];
  if (hop.stock_from !== undefined) said.push(`stock ${hop.stock_from} → ${hop.stock_to}`);
  if (hop.topic) said.push(`${hop.topic} ${hop.partition ?? ''}@${hop.offset ?? '?'}`);
  if (hop.binlog_file) said.push(`${hop.binlog_file}:${hop.binlog_position ?? ''}`);
  if (hop.gtid) said.push(hop.gtid);
  if (hop.code) said.push(hop.code);
  return said.length ? html`<p class="small traces">${said.join(' · ')}</p>` : null;
}
