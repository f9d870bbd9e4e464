// What expires in the next day, hour by hour, and whether anything is overdue.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useLoad } from '../../core/load.js';
import { count } from '../../core/numbers.js';
import { duration, time } from '../../core/times.js';
import { Figure } from '../../parts/figure.js';
import { Read } from '../../parts/problem.js';

const EVERY_MS = 30_000;

export function Expiry() {
  const expiry = useLoad(pathOf('get_expiry'), EVERY_MS);
  return html`<section class="panel" aria-label="Expiry"><header class="panel-head"><h2>Expiry</h2></header>
    <${Read} of=${expiry}>${(data) => html`<${Body} expiry=${data} />`}<//></section>`;
}

function Body({ expiry }) {
  const { overdue, lateness, next_24_hours: hours } = expiry;
  const most = Math.max(1, ...hours.map((hour) => hour.coupons));
  const plus = (one) => `${count(one.coupons)}${one.more ? '+' : ''}`;
  return html`
    <dl class="figures">
      <${Figure} name="Overdue" value=${overdue.coupons} text=${plus(overdue)} kind=${overdue.coupons > 0 ? 'warn' : ''} />
      <${Figure} name="Late, 99 of 100" value=${lateness.p99_ms} text=${duration(lateness.p99_ms)} />
      <${Figure} name="Latest" value=${lateness.max_ms} text=${duration(lateness.max_ms)} />
    </dl>
    <h3>Deadlines of the next 24 hours</h3>
    <ol class="hours" aria-label="Coupons that expire, hour by hour">
      ${hours.map((hour) => html`<li key=${hour.from} title="${time(hour.from, 'minute')}: ${plus(hour)}">
        <span class="hour-bar" style=${{ height: `${Math.max(2, (100 * hour.coupons) / most)}%` }}></span>
        <span class="hour-name">${new Date(hour.from).getHours()}</span><span class="hidden">${plus(hour)}</span></li>`)}
    </ol>`;
}
