// A user's coupons, and the list that the shop shows to them.

import { html, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useList } from '../../core/load.js';
import { to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Confirm } from '../../parts/confirm.js';
import { Listed } from '../../parts/rows.js';
import { say } from '../../parts/toasts.js';
import { GrantOne } from './grant_one.js';

const COLUMNS = [
  { name: 'Coupon', show: (row) => html`<a href=${to(['customer', 'coupon', row.id])}><b>${row.template ? row.template.name : 'A campaign'}</b></a>
      <span class="small muted">${row.template ? row.template.discount_text : html`<span class="not-known">name not known</span>`}</span>` },
  { name: 'State', show: (row) => html`<${Chip} word=${row.status} />` },
  { name: 'Claimed', show: (row) => time(row.claimed_at) },
  { name: 'Valid until', show: (row) => time(row.valid_until) },
  { name: 'Order', show: (row) => (row.order_ref ? html`<a href=${to(['customer', 'order', row.order_ref])}>${row.order_ref}</a>` : '') },
];

export function User({ id }) {
  const [open, setOpen] = useState(null);
  const list = useList(pathOf('list_user_coupons', { id }), { limit: 50 });
  const rebuild = async () => {
    await act({ ...callOf('rebuild_view', { id }), label: `Rebuild the list of user ${id}` });
    say({ text: `The list of user ${id} is made anew.` });
    list.again();
  };
  return html`
    ${can('operate') && html`<div class="actions">
      <button onClick=${() => setOpen('grant')}>Grant a coupon…</button>
      <button onClick=${() => setOpen('rebuild')}>Rebuild the list…</button>
    </div>`}
    <section class="panel" aria-label="Coupons">
      <${Listed} list=${list} columns=${COLUMNS} keyOf=${(row) => row.id} label="Coupons of user ${id}"
        empty=${['This user has no coupon', 'Of your campaigns, that is.']} />
    </section>
    ${open === 'rebuild' && html`<${Confirm} title="Rebuild the list of user ${id}" does="Rebuild" run=${rebuild} close=${() => setOpen(null)}>
      <p>What the shop shows to this user is made anew from MySQL. It is harmless, and helps if the list lacks a coupon.</p><//>`}
    ${open === 'grant' && html`<${GrantOne} user=${id} close=${() => setOpen(null)} />`}`;
}
