// A coupon: its state, what can be done for its user, and its way from the claim on.

import { html, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useLoad } from '../../core/load.js';
import { go, to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { readLocal, time, toLocal, zoneName } from '../../core/times.js';
import { CampaignLink } from '../../parts/campaign_link.js';
import { Chip } from '../../parts/chips.js';
import { Confirm } from '../../parts/confirm.js';
import { Field } from '../../parts/field.js';
import { Read } from '../../parts/problem.js';
import { RecordList } from '../record/record_list.js';
import { say } from '../../parts/toasts.js';
import { Story } from './story.js';

export function Coupon({ id }) {
  const coupon = useLoad(pathOf('get_coupon', { id }));
  return html`<${Read} of=${coupon}>${(data) => html`<${Body} coupon=${data} again=${coupon.again} />`}<//>`;
}

function Body({ coupon, again }) {
  const [open, setOpen] = useState(null);
  const isUnused = coupon.status === 'unused';
  const dialogs = { revoke: Revoke, extend: Extend, replace: Replace };
  const Open = dialogs[open];
  return html`
    ${can('operate') && isUnused && html`<div class="actions">
      <button onClick=${() => setOpen('extend')}>Extend…</button>
      <button onClick=${() => setOpen('replace')}>Replace…</button>
      <button class="quiet-danger" onClick=${() => setOpen('revoke')}>Revoke…</button>
    </div>`}
    <section class="panel"><dl class="terms">${rowsOf(coupon).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></section>
    <${Story} key=${`story-${coupon.changed_at}`} claim=${coupon.claim_id} template=${coupon.template_id} coupon=${coupon.id} />
    <section class="panel" aria-label="Record"><header class="panel-head"><h2>What operators did</h2></header>
      <${RecordList} key=${coupon.changed_at} query=${{ target: `coupons/${coupon.id}` }} /></section>
    ${Open && html`<${Open} coupon=${coupon} close=${() => setOpen(null)} again=${again} />`}`;
}

function rowsOf(coupon) {
  const link = (kind, id) => html`<a href=${to(['customer', kind, id], kind === 'claim' ? { template: coupon.template_id } : {})}>${id}</a>`;
  const rows = [
    ['State', html`<${Chip} word=${coupon.status} />`], ['User', link('user', coupon.user_id)],
    ['Campaign', html`<${CampaignLink} id=${coupon.template_id} />`], ['Claim', link('claim', coupon.claim_id)],
    ['Claimed', time(coupon.claimed_at)], ['Valid', `${time(coupon.valid_from)} to ${time(coupon.valid_until)}`],
    ['Held until', coupon.held_until && time(coupon.held_until)], ['Used', coupon.used_at && time(coupon.used_at)],
    ['Order', coupon.order_ref && link('order', coupon.order_ref)], ['Given back by', coupon.given_back_by && link('order', coupon.given_back_by)],
    ['In a checkout', coupon.locked_for && html`${link('order', coupon.locked_for.order_ref)} until ${time(coupon.locked_for.locked_until)}`],
    ['Takes the place of', coupon.replaces && link('coupon', coupon.replaces)], ['Its place took', coupon.replaced_by && link('coupon', coupon.replaced_by)],
    ['Changed', time(coupon.changed_at)],
  ];
  return rows.filter(([, value]) => value);
}

function Locked({ coupon }) {
  if (!coupon.locked_for) return null;
  return html`<p class="note warn">Order <b>${coupon.locked_for.order_ref}</b> has it in its checkout, and will be refused. Tell the shop.</p>`;
}

function Revoke({ coupon, close, again }) {
  const run = async ({ reason }) => {
    await act({ ...callOf('revoke_coupon', { id: coupon.id }), body: { reason }, label: `Revoke coupon ${coupon.id}` });
    say({ text: 'The coupon is revoked.' });
    again();
  };
  return html`<${Confirm} title="Revoke coupon ${coupon.id}" does="Revoke for good" danger reason run=${run} close=${close}>
    <${Locked} coupon=${coupon} /><p>The user cannot use it, nor claim another one in its place.</p><//>`;
}

function Replace({ coupon, close }) {
  const run = async ({ reason }) => {
    const answer = await act({ ...callOf('replace_coupon', { id: coupon.id }), body: { reason }, label: `Replace coupon ${coupon.id}` });
    if (!answer) return;
    say({ text: 'The user has a new coupon in its place.' });
    go(['customer', 'coupon', answer.body.replacement.id]);
  };
  return html`<${Confirm} title="Replace coupon ${coupon.id}" does="Replace" reason run=${run} close=${close}>
    <${Locked} coupon=${coupon} /><p>It is cancelled, and its user gets another one of the same validity.</p><//>`;
}

function Extend({ coupon, close, again }) {
  const [until, set] = useState(toLocal(coupon.valid_until));
  const read = readLocal(until);
  const run = async ({ reason }) => {
    if (read.wrong) throw new Error(read.wrong);
    const body = { valid_until: read.instant, reason };
    await act({ ...callOf('extend_coupon', { id: coupon.id }), body, label: `Extend coupon ${coupon.id}` });
    say({ text: `The coupon is valid until ${time(read.instant)}.` });
    again();
  };
  const extra = html`<${Field} id="until" label="Valid until, ${zoneName}" wrong=${read.wrong}>
    <input id="until" type="datetime-local" step="1" value=${until} onInput=${(event) => set(event.target.value)} /><//>`;
  return html`<${Confirm} title="Extend coupon ${coupon.id}" does="Extend" reason run=${run} close=${close} extra=${extra}>
    <p>Now it is valid until ${time(coupon.valid_until)}.</p><//>`;
}
