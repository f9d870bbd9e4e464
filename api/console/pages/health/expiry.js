// What expires in the next day, hour by hour, and whether anything is overdue.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useLoad } from '../../core/load.js';
import { count } from '../../core/numbers.js';
import { duration, time } from '../../core/times.js';
import { Figure } from '../../parts/figure.js';
import { Read } from '../../parts/problem.js';

const EVERY_MS = 30_000;

/** Height of the highest bar: its number above and its hour below have the rest. */
const BAR_PERCENT = 70;

export function Expiry() {
  const expiry = useLoad(pathOf('get_expiry'), EVERY_MS);
  return html`<section class="panel" aria-label="Expiry"><header class="panel-head"><h2>Expiry</h2></header>
    <${Read} of=${expiry}>${(data) => html`<${Body} expiry=${data} />`}<//></section>`;
}

/** A late one of 0 ms was on time. */
function lateOf(ms) {
  return ms === 0 ? 'on time' : duration(ms);
}

function Body({ expiry }) {
  const { overdue, lateness, next_24_hours: hours } = expiry;
  const most = Math.max(1, ...hours.map((hour) => hour.coupons));
  const plus = (one) => `${count(one.coupons)}${one.more ? '+' : ''}`;
  return html`
    <dl class="figures">
      <${Figure} name="Overdue" value=${overdue.coupons} text=${plus(overdue)} kind=${overdue.coupons > 0 ? 'warn' : ''} />
      ${lateness.flips === 0 ? html`<${Figure} name="Late" value="nothing" text="nothing expired in the last day" />` : html`
        <${Figure} name="Late, 99 of 100" value=${lateness.p99_ms} text=${lateOf(lateness.p99_ms)} />
        <${Figure} name="Latest" value=${lateness.max_ms} text=${lateOf(lateness.max_ms)} />`}
    </dl>
    <h3>Deadlines of the next 24 hours</h3>
    <ol class="hours" aria-label="Coupons that expire, hour by hour">
      ${hours.map((hour) => html`<li key=${hour.from} class=${hour.coupons > 0 ? '' : 'none'} title="${time(hour.from, 'minute')}: ${plus(hour)}">
        ${hour.coupons > 0 && html`<span class="hour-count">${plus(hour)}</span>`}
        <span class="hour-bar" style=${{ height: hour.coupons > 0 ? `${Math.max(3, (BAR_PERCENT * hour.coupons) / most)}%` : '1px' }}></span>
        <span class="hour-name">${new Date(hour.from).getHours()}</span>${hour.coupons === 0 && html`<span class="hidden">none</span>`}</li>`)}
    </ol>`;
}
