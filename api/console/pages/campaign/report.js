// A sale in one page, to be printed or sent on.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useLoad } from '../../core/load.js';
import { count, percent } from '../../core/numbers.js';
import { duration, time } from '../../core/times.js';
import { Figure } from '../../parts/figure.js';
import { Icon } from '../../parts/icons.js';
import { Read } from '../../parts/problem.js';
import { Steps } from './funnel.js';

export function Report({ sale }) {
  const report = useLoad(pathOf('get_report', { id: sale.id }));
  return html`<section class="panel report" aria-label="Report">
    <header class="panel-head"><h2>Report</h2>
      <button onClick=${() => print()}><${Icon} name="print" size=${16} /> Print</button></header>
    <${Read} of=${report}>${(data) => html`<${Body} report=${data} />`}<//>
  </section>`;
}

function Body({ report }) {
  return html`
    <p class="small muted">${time(report.from, 'minute')} to ${time(report.to, 'minute')}</p>
    ${!report.complete && report.answers && html`<div class="note warn">Not all statistics of this span could be read: the counts are too low.</div>`}
    ${!report.answers && html`<div class="note warn">The statistics of claims cannot be read at the moment. Stock, coupons and money are complete.</div>`}
    <dl class="figures big">${figuresOf(report).map(([name, value, text]) => html`<${Figure} key=${name} name=${name} value=${value} text=${text} />`)}</dl>
    <${Steps} report=${report} />
    <h3>Coupons</h3>
    <${Statuses} coupons=${report.coupons} />`;
}

/** The figures of a sale, by name: also for the comparison of two. */
export function figuresOf({ answers, stock, coupons, redemption }) {
  const of = answers || {};
  const known = (value, text) => [value, value === null || value === undefined ? null : text];
  return [
    ['Given out', stock.landed, `${count(stock.landed)} of ${count(stock.total)}`],
    ['Left', stock.left, count(stock.left)],
    ['Requests', ...known(of.requests, count(of.requests))],
    ['Busiest second', ...known(of.peak_per_second, `${count(of.peak_per_second)} answers`)],
    answers && of.sold_out_after_ms === null ? ['Sold out after', 'not sold out', 'not sold out']
      : ['Sold out after', ...known(of.sold_out_after_ms, duration(of.sold_out_after_ms))],
    ['Half answered within', ...known(of.p50_ms, duration(of.p50_ms))],
    ['99 of 100 within', ...known(of.p99_ms, duration(of.p99_ms))],
    ['Used', ...known(coupons.used_percent, `${count(coupons.used)} (${percent(coupons.used_percent)})`)],
    ['Expired unused', ...known(coupons.expired_percent, `${count(coupons.expired)} (${percent(coupons.expired_percent)})`)],
    ['Redeemed', redemption.redeemed, count(redemption.redeemed)],
    ['Discount given', redemption.discount, redemption.discount_text],
    ['Revenue of these orders', redemption.revenue, redemption.revenue_text],
  ];
}

const STATUSES = ['unused', 'used', 'held', 'expired', 'lapsed', 'cancelled', 'others'];

function Statuses({ coupons }) {
  return html`<ul class="reasons">
    ${STATUSES.filter((name) => coupons[name] > 0).map((name) => html`<li key=${name}><span>${name}</span><b>${count(coupons[name])}</b></li>`)}
  </ul>${!coupons.all_counted && html`<p class="help">There are more: counting stopped after two seconds.</p>`}`;
}
