// An order: the coupons that it uses, or was the last to give back.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useList } from '../../core/load.js';
import { to } from '../../core/router.js';
import { time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Listed } from '../../parts/rows.js';

export function Order({ id }) {
  const list = useList(pathOf('find_coupons'), { order_ref: id, limit: 50 });
  const columns = [
    { name: 'Coupon', show: (row) => html`<a href=${to(['customer', 'coupon', row.id])}>${row.id}</a>` },
    { name: 'User', show: (row) => html`<a href=${to(['customer', 'user', row.user_id])}>${row.user_id}</a>` },
    { name: 'State', show: (row) => html`<${Chip} word=${row.status} />` },
    { name: 'Used', show: (row) => time(row.used_at) },
    { name: 'Given back', show: (row) => (row.given_back_by === id ? 'yes' : '') },
  ];
  return html`<section class="panel"><${Listed} list=${list} columns=${columns} keyOf=${(row) => row.id} label="Coupons of order ${id}"
    empty=${['No coupon belongs to this order', 'Of your campaigns, that is.']} /></section>`;
}
