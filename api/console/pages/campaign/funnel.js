// From requests to used coupons, each step with what it lost.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useLoad } from '../../core/load.js';
import { count, percent, percentOf } from '../../core/numbers.js';
import { Read } from '../../parts/problem.js';
import { words } from '../now/sale_row.js';

export function Funnel({ sale }) {
  const report = useLoad(pathOf('get_report', { id: sale.id }), 15_000);
  return html`<section class="panel" aria-label="From requests to used coupons">
    <header class="panel-head"><h2>From requests to used coupons</h2></header>
    <${Read} of=${report}>${(data) => html`<${Steps} report=${data} />`}<//>
  </section>`;
}

export function Steps({ report }) {
  const { answers, stock, coupons } = report;
  const requests = answers ? answers.requests : null;
  const steps = [
    { name: 'Requests', value: requests, most: requests },
    { name: 'Coupons given out', value: stock.landed, most: Math.max(requests || 0, stock.landed) },
    { name: 'Used', value: coupons.used, most: Math.max(requests || 0, stock.landed) },
  ];
  const all = Math.max(1, ...steps.map((step) => step.value || 0));
  return html`<ol class="funnel">
    ${steps.map((step, at) => html`<li key=${step.name}>
      <span class="funnel-name">${step.name}</span>
      <span class="funnel-bar"><span style=${{ width: `${(100 * (step.value || 0)) / all}%` }}></span></span>
      <b>${step.value === null ? html`<span class="not-known">not known</span>` : count(step.value)}</b>
      <span class="muted small">${at > 0 && steps[at - 1].value && step.value <= steps[at - 1].value ? percent(percentOf(step.value, steps[at - 1].value)) : ''}</span>
    </li>`)}
  </ol>
  ${answers && stock.landed > requests && html`<p class="help">Requests are counted some seconds later than coupons; one may ask for several, and a grant is none.</p>`}
  ${answers && html`<${Reasons} title="Refused" counts=${answers.refused} all=${answers.requests} />
    <${Reasons} title="Undecided, the same key finds out" counts=${answers.unknown} all=${answers.requests} />`}`;
}

function Reasons({ title, counts, all }) {
  const rows = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  if (rows.length === 0) return null;
  return html`<h3>${title}</h3><ul class="reasons">
    ${rows.map(([code, number]) => html`<li key=${code}><span>${words(code)}</span><b>${count(number)}</b>
      <span class="muted small">${percent(percentOf(number, all))}</span></li>`)}
  </ul>`;
}
