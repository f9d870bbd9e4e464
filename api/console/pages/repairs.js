// The place of findings and repairs, webhooks and dead letters. Their calls are not in this version; until then the command
// line has what there is.

import { html } from '../core/view.js';
import { Empty } from '../parts/problem.js';

const PARTS = [
  ['Findings and repairs', 'What the reconciler finds, and what it would do about it.'],
  ['Webhooks', 'Endpoints, deliveries that are parked, and sending them again.'],
  ['Dead letters', 'Messages that nobody could read. Until then: coupon dead-letters list.'],
];

export function Repairs() {
  return html`<div class="page"><header class="page-head"><h1>Repairs</h1></header>
    ${PARTS.map(([title, text]) => html`<section key=${title} class="panel"><${Empty} title=${title}>${text}<//></section>`)}
  </div>`;
}
