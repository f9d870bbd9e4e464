// All campaigns: drafts, open, paused, and those that are over.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useList } from '../../core/load.js';
import { count } from '../../core/numbers.js';
import { refine, to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { time } from '../../core/times.js';
import { Chip, saleState } from '../../parts/chips.js';
import { Choice } from '../../parts/field.js';
import { Icon } from '../../parts/icons.js';
import { Listed } from '../../parts/rows.js';

const STATES = [['', 'All states'], ['draft', 'Drafts'], ['published', 'Published'], ['paused', 'Paused'], ['ended', 'Ended']];
const SORTS = [['newest', 'Newest first'], ['starts_at', 'By begin'], ['ends_at', 'By end']];

const COLUMNS = [
  { name: 'Campaign', show: (row) => html`<a href=${to(['campaign', row.id])}><b>${row.name}</b></a>
      <span class="small muted">${row.discount_text}</span>` },
  { name: 'State', show: (row) => html`<${Chip} word=${saleState({ ...row, left: row.stock && row.stock.left }, Date.now())} />` },
  { name: 'Begins', show: (row) => time(row.claim_starts_at, 'minute') },
  { name: 'Ends', show: (row) => time(row.claim_ends_at, 'minute') },
  { name: 'Given out', kind: 'number', show: (row) => (row.stock ? `${count(row.stock.landed)} of ${count(row.stock.total)}` : html`<span class="not-known">not known</span>`) },
  { name: 'Used', kind: 'number', show: (row) => (row.stock ? count(row.stock.used) : '') },
];

export function Campaigns({ query }) {
  const { state = '', q = '', sort = 'newest' } = query;
  const list = useList(pathOf('list_templates'), { state, q, sort: sort === 'newest' ? '' : sort, include: 'stock', limit: 50 });
  const filtered = state || q;
  return html`<div class="page">
    <header class="page-head">
      <h1>Campaigns</h1>
      ${can('operate') && html`<a class="button main" href="#/create"><${Icon} name="plus" size=${16} /> New campaign</a>`}
    </header>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <input type="search" aria-label="Part of the name" placeholder="Part of the name" value=${q} onChange=${(event) => refine({ q: event.target.value })} />
      <label class="hidden" for="state">State</label>
      <${Choice} id="state" value=${state} change=${(next) => refine({ state: next })} options=${STATES} />
      <label class="hidden" for="sort">Order</label>
      <${Choice} id="sort" value=${sort} change=${(next) => refine({ sort: next })} options=${SORTS} />
    </form>
    <section class="panel"><${Listed} list=${list} columns=${COLUMNS} keyOf=${(row) => row.id} label="Campaigns"
      empty=${filtered ? ['No campaign is like that', 'Change the filter.'] : ['There is no campaign yet', 'Create the first one.']} /></section>
  </div>`;
}
