// Payments that came after their hold had lapsed: the shop refunds each, and says so here.

import { html, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useList } from '../../core/load.js';
import { to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { time } from '../../core/times.js';
import { Confirm } from '../../parts/confirm.js';
import { Listed } from '../../parts/rows.js';
import { say } from '../../parts/toasts.js';
import { words } from '../now/sale_row.js';

export function LatePayments({ sale }) {
  const [refund, setRefund] = useState(null);
  const list = useList(pathOf('list_late_payments'), { template_id: sale.id, limit: 20 });
  const columns = [
    { name: 'Payment', show: (row) => row.payment_ref },
    { name: 'User', show: (row) => html`<a href=${to(['customer', 'user', row.user_id])}>${row.user_id}</a>` },
    { name: 'Claim', show: (row) => html`<a href=${to(['customer', 'claim', row.claim_id], { template: sale.id })}>${row.claim_id}</a>` },
    { name: 'Refused', show: (row) => html`${time(row.refused_at)} <span class="small muted">${words(row.code)}${row.lapsed_at && html`, lapsed ${time(row.lapsed_at)}`}</span>` },
    { name: 'Sent by', show: (row) => row.actor },
    ...(can('operate') ? [{ name: 'Actions', kind: 'number', show: (row) => html`<button onClick=${() => setRefund(row)}>Refunded…</button>` }] : []),
  ];
  const run = async ({ reason }) => {
    const body = { claim_id: refund.claim_id, payment_ref: refund.payment_ref, reason };
    await act({ ...callOf('mark_late_payment_refunded'), body, label: `Mark ${refund.payment_ref} as refunded`, keyless: true });
    say({ text: `Payment ${refund.payment_ref} is marked as refunded.` });
    list.again();
  };
  return html`<section class="panel" aria-label="Late payments">
    <header class="panel-head"><h2>Late payments to refund</h2></header>
    <${Listed} list=${list} columns=${columns} keyOf=${(row) => `${row.claim_id}.${row.payment_ref}`} label="Late payments"
      empty=${['Nothing is to be refunded', 'No payment came after its hold had lapsed.']} />
    ${refund && html`<${Confirm} title="Payment ${refund.payment_ref} was refunded" does="Mark as refunded" reason run=${run} close=${() => setRefund(null)}>
      <p>It moves no money: refund it where it was paid, first.</p>
      ${refund.confirmed_claim_id && html`<p class="note warn">The same payment has confirmed other coupons since, of claim ${refund.confirmed_claim_id}: refund no more than the rest.</p>`}<//>`}
  </section>`;
}
