// What the reconciler found that is not as it should be, and what was decided about it.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useList } from '../../core/load.js';
import { count } from '../../core/numbers.js';
import { refine, to } from '../../core/router.js';
import { isPlatform } from '../../core/session.js';
import { time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Choice } from '../../parts/field.js';
import { Listed } from '../../parts/rows.js';
import { Finding } from './finding.js';
import { KINDS, STATES } from './words.js';

const COLUMNS = [
  { name: 'Finding', show: (row) => html`<a href=${to(['findings', row.id])}><b>${KINDS[row.kind] || row.kind}</b></a>
      <span class="small muted">${row.line}</span>` },
  { name: 'State', show: (row) => html`<${Chip} word=${row.state} kind=${row.state === 'open' ? 'warn' : undefined} />` },
  { name: 'Coupons', kind: 'number', show: (row) => (row.coupons > 0 ? count(row.coupons) : '') },
  { name: 'Looks', kind: 'number', show: (row) => count(row.looks) },
  { name: 'First seen', show: (row) => time(row.first_seen, 'minute') },
  { name: 'Last seen', show: (row) => time(row.last_seen, 'minute') },
];

const all = (words, everything) => [['', everything], ...Object.entries(words)];

export function Findings({ id, query }) {
  if (id) return html`<${Finding} id=${id} />`;
  const { state = 'open', kind = '' } = query;
  // Its own key sees what belongs to the platform, too, and every merchant's.
  const whose = isPlatform() ? 'all' : '';
  const list = useList(pathOf('list_findings'), { state: state === 'any' ? '' : state, kind, merchant_id: whose, limit: 50 });
  return html`<div class="page">
    <header class="page-head"><h1>Findings</h1><button class="link" onClick=${list.again}>Read again</button></header>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label class="hidden" for="state">State</label>
      <${Choice} id="state" value=${state} change=${(next) => refine({ state: next })} options=${[['any', 'All states'], ...Object.entries(STATES)]} />
      <label class="hidden" for="kind">Kind</label>
      <${Choice} id="kind" value=${kind} change=${(next) => refine({ kind: next })} options=${all(KINDS, 'All kinds')} />
    </form>
    <section class="panel"><${Listed} list=${list} columns=${COLUMNS} keyOf=${(row) => row.id} label="Findings"
      empty=${state === 'open' ? ['Nothing is wrong', 'No finding is open: databases, gates and lists agree.'] : ['No finding is like that', 'Change the filter.']} /></section>
    ${isPlatform() && html`<p class="help">Messages that nobody could read are no findings: <code>coupon dead-letters list</code> shows them, and puts them back.</p>`}
  </div>`;
}
