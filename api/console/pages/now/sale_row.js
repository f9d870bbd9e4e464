// One sale: its state and countdown, the conservation equation, how fast it sells, and who is refused.

import { html } from '../../core/view.js';
import { historyOf, paceOf } from '../../core/live.js';
import { count, isKnown, rate } from '../../core/numbers.js';
import { duration, time } from '../../core/times.js';
import { to } from '../../core/router.js';
import { isForeign } from '../../core/session.js';
import { StockBar } from '../../parts/bar.js';
import { Spark } from '../../parts/chart.js';
import { HaltButton } from '../../parts/changes.js';
import { Chip, GateChip } from '../../parts/chips.js';
import { Figure } from '../../parts/figure.js';

/** Reasons of refusals that are shown; the others are one number. */
const REASONS = 4;

export function SaleRow({ sale, state, live, changed }) {
  const isStale = live.isStale && !sale.isListed;
  return html`<article class="sale ${state} ${isStale ? 'has-stale' : ''}" aria-label=${sale.name}>
    <header>
      <h2><a href=${to(['campaign', sale.id])}>${sale.name}</a></h2>
      <${Chip} word=${state} />
      ${!sale.isListed && html`<${GateChip} loaded=${sale.gate_loaded} state=${state} />`}
      ${isForeign(sale) && html`<span class="muted small">merchant ${sale.merchant_id}</span>`}
      <span class="countdown">${countdown(sale, state, live.now)}</span>
      <${HaltButton} sale=${sale} done=${changed} />
    </header>
    <${StockBar} sale=${sale} isStale=${isStale} />
    ${!sale.isListed && state !== 'upcoming' && html`<${Pace} sale=${sale} state=${state} isStale=${isStale} />`}
  </article>`;
}

function countdown(sale, state, now) {
  if (state === 'upcoming') return html`opens in <b>${duration(Date.parse(sale.claim_starts_at) - now)}</b>`;
  if (state.startsWith('paused')) return html`closes ${time(sale.claim_ends_at, 'minute')}`;
  return html`closes in <b>${duration(Date.parse(sale.claim_ends_at) - now)}</b>`;
}

function Pace({ sale, state, isStale }) {
  const soldOut = minutesLeft(sale);
  const rates = historyOf(sale.id).slice(-60).map((sample) => sample.rate);
  return html`<div class="pace ${isStale ? 'is-stale' : ''}">
    <dl class="figures">
      <${Figure} name="Coupons a second" value=${sale.given_per_second} text=${rate(sale.given_per_second)} />
      ${state === 'open' && html`<${Figure} name="Sold out in" value=${soldOut.known ? soldOut.text : null} text=${soldOut.text} />`}
    </dl>
    <${Spark} values=${rates} label="Coupons a second in the last minute" />
    <${Refusals} refusals=${sale.refusals} />
  </div>`;
}

/** How long what is left lasts at the present pace. */
export function minutesLeft({ id, left, given_per_second: given }) {
  if (left === 0) return { known: true, text: 'sold out' };
  const speed = paceOf(id);
  if (!isKnown(left) || !isKnown(speed)) return { known: false, text: null };
  // As many come back as are claimed, where holds lapse.
  if (speed <= 0) return { known: true, text: given > 0 ? 'not at this pace' : 'nobody claims' };
  return { known: true, text: duration((left / speed) * 1_000) };
}

export function Refusals({ refusals }) {
  if (!isKnown(refusals)) return html`<p class="refusals"><span class="not-known">refusals not known</span></p>`;
  const all = Object.entries(refusals).filter(([, number]) => number > 0).sort((a, b) => b[1] - a[1]);
  if (all.length === 0) return html`<p class="refusals muted">nobody is refused</p>`;
  const others = all.slice(REASONS).reduce((sum, [, number]) => sum + number, 0);
  return html`<p class="refusals"><span class="muted">refused</span>
    ${all.slice(0, REASONS).map(([code, number]) => html`<span key=${code} class="reason"><b>${count(number)}</b> ${words(code)}</span>`)}
    ${others > 0 && html`<span class="reason"><b>${count(others)}</b> others</span>`}
  </p>`;
}

/** A code as words: `LIMIT_REACHED` is “limit reached”. */
export function words(code) {
  return code.toLowerCase().replaceAll('_', ' ');
}
