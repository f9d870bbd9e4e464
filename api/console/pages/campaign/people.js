// Who is refused after too many lapsed holds, and who claimed.

import { html, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useList } from '../../core/load.js';
import { count } from '../../core/numbers.js';
import { to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Confirm } from '../../parts/confirm.js';
import { Listed } from '../../parts/rows.js';
import { say } from '../../parts/toasts.js';
import { LatePayments } from './late.js';

export function People({ sale }) {
  return html`
    ${sale.lapses_allowed > 0 && html`<${Bans} sale=${sale} />`}
    ${sale.hold_ms > 0 && html`<${LatePayments} sale=${sale} />`}
    <${Claims} sale=${sale} />`;
}

function user(row) {
  return html`<a href=${to(['customer', 'user', row.user_id])}>${row.user_id}</a>`;
}

function Bans({ sale }) {
  const [lift, setLift] = useState(null);
  const list = useList(pathOf('list_bans', { id: sale.id }), { limit: 50 });
  const columns = [
    { name: 'User', show: user },
    { name: 'Lapsed', kind: 'number', show: (row) => `${count(row.lapses)} of ${count(row.lapses_allowed ?? sale.lapses_allowed)} allowed` },
    ...(can('operate') ? [{ name: 'Actions', kind: 'number', show: (row) => html`<button onClick=${() => setLift(row)}>Lift…</button>` }] : []),
  ];
  const run = async ({ reason }) => {
    const lifts = callOf('lift_ban', { id: sale.id, user: lift.user_id });
    await act({ ...lifts, body: { reason }, label: `Lift the ban of user ${lift.user_id}` });
    say({ text: `User ${lift.user_id} may claim again.` });
    list.again();
  };
  return html`<section class="panel" aria-label="Banned users">
    <header class="panel-head"><h2>Banned users</h2></header>
    <${Listed} list=${list} columns=${columns} keyOf=${(row) => row.user_id} label="Banned users"
      empty=${['Nobody is banned', `Users who let ${sale.lapses_allowed} coupons lapse are.`]} />
    ${lift && html`<${Confirm} title="Lift the ban of user ${lift.user_id}" does="Lift" reason run=${run} close=${() => setLift(null)}>
      <p>Lapses count from 0 again.</p><//>`}
  </section>`;
}

function Claims({ sale }) {
  const list = useList(pathOf('list_template_claims', { id: sale.id }), { limit: 20 });
  const columns = [
    { name: 'When', show: (row) => time(row.claimed_at) }, { name: 'User', show: user },
    { name: 'Coupons', kind: 'number', show: (row) => count(row.quantity) }, { name: 'State', show: (row) => html`<${Chip} word=${row.state} />` },
    { name: 'Claim', show: (row) => html`<a href=${to(['customer', 'claim', row.id], { template: sale.id })}>${row.id}</a>` },
  ];
  return html`<section class="panel" aria-label="Claims">
    <header class="panel-head"><h2>Claims</h2></header>
    <${Listed} list=${list} columns=${columns} keyOf=${(row) => row.id} label="Claims" empty=${['Nobody has claimed yet', '']} />
  </section>`;
}
