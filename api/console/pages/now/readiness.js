// Whether the next sale can begin: a list to be ticked off, which the api makes.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useLoad } from '../../core/load.js';
import { duration, inLocalTime, time } from '../../core/times.js';
import { to } from '../../core/router.js';
import { Icon } from '../../parts/icons.js';
import { Read } from '../../parts/problem.js';

const EVERY_MS = 5_000;

export function Readiness({ sale, now }) {
  const readiness = useLoad(pathOf('get_readiness', { id: sale.id }), EVERY_MS);
  return html`<section class="panel readiness" aria-label="Readiness of the next sale">
    <header><h2>Next: <a href=${to(['campaign', sale.id])}>${sale.name}</a></h2>
      <p>${time(sale.claim_starts_at, 'minute')}, in <b>${duration(Date.parse(sale.claim_starts_at) - now)}</b></p></header>
    <${Read} of=${readiness}>${({ sentence, items }) => html`<p class="verdict-of-all">${inLocalTime(sentence)}</p><ul class="checklist">
      ${items.map((item) => html`<${Item} key=${item.name} item=${item} />`)}
    </ul>`}<//>
  </section>`;
}

function Item({ item }) {
  const kind = { true: 'good', false: 'bad' }[String(item.ok)] || 'hatched';
  const [icon, said] = { good: ['check', 'ready'], bad: ['cross', 'not ready'], hatched: ['wait', 'not known'] }[kind];
  return html`<li class=${kind}>
    <span class="tick-mark"><${Icon} name=${icon} size=${18} /><span class="hidden">${said}:</span></span>
    <div><p>${inLocalTime(item.sentence)}</p>${item.action && html`<p class="small action">${inLocalTime(item.action)}</p>`}</div>
  </li>`;
}
