// One campaign: what it promises, how it sells, what was done to it.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useLive } from '../../core/live.js';
import { useLoad } from '../../core/load.js';
import { to } from '../../core/router.js';
import { can, isForeign } from '../../core/session.js';
import { duration, time } from '../../core/times.js';
import { StockBar } from '../../parts/bar.js';
import { Chip, GateChip, saleState } from '../../parts/chips.js';
import { Tabs } from '../../parts/field.js';
import { Figure, LastSeen } from '../../parts/figure.js';
import { Empty, inWords, Loading, ProblemNote } from '../../parts/problem.js';
import { RecordList } from '../record/record_list.js';
import { rate } from '../../core/numbers.js';
import { Readiness } from '../now/readiness.js';
import { minutesLeft, Refusals } from '../now/sale_row.js';
import { Actions } from './actions.js';
import { Compare } from './compare.js';
import { Funnel } from './funnel.js';
import { Stock } from './stock.js';
import { People } from './people.js';
import { Rates } from './rates.js';
import { Report } from './report.js';
import { Terms } from './terms.js';

const TABS = [['live', 'Live'], ['report', 'Report'], ['stock', 'Stock'], ['people', 'People'], ['terms', 'Terms'], ['record', 'Record']];

/** How often the stock is read of a sale that the stream does not have, in ms. */
const STOCK_EVERY_MS = 5_000;

export function Campaign({ id, query }) {
  const template = useLoad(pathOf('get_template', { id }), 30_000);
  const live = useLive();
  const streamed = live.sample && (live.sample.templates || []).find((sale) => sale.id === id);
  // Of a sale without its gate, too: whether that waits for a queue is told nowhere else.
  const isStreamed = streamed && streamed.gate_loaded !== false;
  const stock = useLoad(isStreamed ? null : pathOf('get_stock', { id }), STOCK_EVERY_MS);
  if (template.problem && !template.data) {
    if (template.problem.status === 404) return html`<${Empty} title="There is no such campaign">It may have been a draft that was deleted.<//>`;
    return html`<${ProblemNote} problem=${template.problem} again=${template.again} />`;
  }
  if (!template.data) return html`<${Loading} lines=${6} />`;
  const sale = joined(template.data, streamed, stock.data);
  const state = saleState(sale, live.now);
  const foreign = isForeign(sale);
  const tabs = foreign ? TABS.filter(([word]) => word === 'live' || word === 'terms') : TABS;
  const tab = tabs.some(([word]) => word === query.tab) ? query.tab : 'live';
  const again = () => {
    template.again();
    stock.again();
  };
  return html`<div class="page">
    <header class="page-head ${streamed && live.isStale ? 'has-stale' : ''}">
      <h1>${sale.name}</h1>
      <${Chip} word=${state} />
      ${sale.state !== 'draft' && sale.state !== 'ended' && html`<${GateChip} loaded=${sale.gate_loaded} state=${state} />`}
      <${LastSeen} live=${streamed ? live : { isStale: false }} />
    </header>
    <p class="subtitle">${sale.discount_text} · ${when(sale, state, live.now)}</p>
    ${(template.data.warnings || []).map((warning) => html`<div key=${warning} class="note warn">${inWords(warning)}</div>`)}
    <${Actions} sale=${sale} etag=${template.etag} state=${state} live=${live} again=${again} />
    <${ProblemNote} problem=${template.problem} again=${again} />
    <section class="panel"><${StockBar} sale=${sale} isStale=${Boolean(streamed) && live.isStale} />
      ${streamed && state !== 'upcoming' && html`<${Pace} sale=${sale} state=${state} isStale=${live.isStale} />`}</section>
    <${Tabs} tabs=${tabs} present=${tab} address=${(word) => to(['campaign', id], { tab: word })} />
    ${tab === 'live' && (foreign ? html`<${Foreign} sale=${sale} state=${state} live=${live} />` : html`<${Live} sale=${sale} state=${state} live=${live} />`)}
    ${tab === 'report' && html`<${Report} sale=${sale} /><${Compare} sale=${sale} other=${query.with} />`}
    ${tab === 'stock' && html`<${Stock} sale=${sale} query=${query} />`}
    ${tab === 'people' && html`<${People} sale=${sale} />`}
    ${tab === 'terms' && html`<${Terms} sale=${sale} />`}
    ${tab === 'record' && html`<section class="panel"><${RecordList} query=${{ target: `templates/${id}` }} /></section>`}
  </div>`;
}

function Live({ sale, state, live }) {
  if (state === 'draft') {
    return html`<${Empty} title="It is a draft">Shoppers see nothing of it before it is published.
      ${can('operate') && html` <a href=${to(['edit', sale.id])}>Edit it</a>.`}<//>`;
  }
  return html`${state === 'upcoming' && html`<${Readiness} sale=${sale} now=${live.now} />`}
    <${Rates} sale=${sale} />
    <${Funnel} sale=${sale} />`;
}

function Foreign({ sale, state, live }) {
  return html`${state === 'upcoming' && html`<${Readiness} sale=${sale} now=${live.now} />`}
    <${Empty} title="A sale of merchant ${sale.merchant_id}">You see its stock, and may pause it, since you are on call. The rest is for keys of that merchant.<//>`;
}

function Pace({ sale, state, isStale }) {
  const soldOut = minutesLeft(sale);
  return html`<div class="pace ${isStale ? 'is-stale' : ''}">
    <dl class="figures">
      <${Figure} name="Coupons a second" value=${sale.given_per_second} text=${rate(sale.given_per_second)} />
      ${state === 'open' && html`<${Figure} name="Sold out in" value=${soldOut.text} />`}
    </dl>
    <${Refusals} refusals=${sale.refusals} />
  </div>`;
}

function when(sale, state, now) {
  const begins = Date.parse(sale.claim_starts_at);
  const ends = Date.parse(sale.claim_ends_at);
  if (state === 'ended') return html`its window was ${time(sale.claim_starts_at, 'minute')} to ${time(sale.claim_ends_at, 'minute')}`;
  if (now < begins) return html`opens ${time(sale.claim_starts_at, 'minute')}, in <b>${duration(begins - now)}</b>`;
  if (now < ends) return html`closes ${time(sale.claim_ends_at, 'minute')}, in <b>${duration(ends - now)}</b>`;
  return html`was open until ${time(sale.claim_ends_at, 'minute')}`;
}

/** The stream's figures, or those of the stock's own call, beside what the template says. */
function joined(template, streamed, stock) {
  const epochs = stock ? { epoch: stock.epoch, queued_epoch: stock.queued_epoch } : {};
  const base = { ...template, ...epochs, total: template.total_stock };
  if (streamed) return { ...base, ...streamed };
  if (!stock) return { ...base, left: null, confirmed: null, held: null, in_flight: null, drift: null, gate_loaded: null };
  const isLoaded = stock.gate_stock !== null;
  return {
    ...base, total: stock.total, confirmed: stock.confirmed, held: stock.held, queued: 0, drift: stock.drift, gate_loaded: isLoaded,
    // Without a gate nothing can be in flight that counts: MySQL's stock is what is left.
    left: isLoaded ? stock.gate_stock : stock.stock, in_flight: isLoaded ? stock.in_flight : 0,
    ...(isLoaded ? {} : { drift: stock.drift ?? 0 }),
  };
}
