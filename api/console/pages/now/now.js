// Now: every sale that is open, begins soon, or is paused, with what keeps its promise. The first page.

import { html, useEffect, useMemo, useState } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { read } from '../../core/api.js';
import { useLive } from '../../core/live.js';
import { count } from '../../core/numbers.js';
import { can, isOnCall } from '../../core/session.js';
import { LastSeen } from '../../parts/figure.js';
import { saleState } from '../../parts/chips.js';
import { Icon } from '../../parts/icons.js';
import { Empty, Loading, ProblemNote } from '../../parts/problem.js';
import { Readiness } from './readiness.js';
import { SaleRow } from './sale_row.js';

/** How often templates are read that the stream does not have yet, in ms. */
const READ_EVERY_MS = 30_000;

/** Rows that are drawn at first: enough for a look, and a second's samples of a thousand sales stay fluent. */
const ROWS = 40;

/** A sale that is paused stays where it is: a row that jumps away under the finger is not there to be resumed. */
const ORDER = { open: 0, paused: 0, paused_at_gate: 0, sold_out: 1, upcoming: 2 };

export function Now() {
  const live = useLive();
  const listed = useListed();
  const [find, setFind] = useState('');
  const [most, setMost] = useState(ROWS);
  const sales = useMemo(() => merged(live, listed.rows), [live.sample, listed.rows]);
  const shown = sales
    .map((sale) => ({ sale, state: saleState(sale, live.now) }))
    .filter(({ sale, state }) => state in ORDER && sale.name.toLowerCase().includes(find.toLowerCase()))
    .sort((a, b) => ORDER[a.state] - ORDER[b.state] || begin(a.sale) - begin(b.sale) || (a.sale.id < b.sale.id ? -1 : 1));
  const next = shown.find(({ state }) => state === 'upcoming');
  const knows = live.sample !== null || listed.done;
  return html`<div class="page">
    <header class="page-head">
      <h1>Now</h1>
      <${LastSeen} live=${live} />
      ${sales.length > 8 && html`<input class="find" type="search" aria-label="Find a sale by name" placeholder="Find by name"
        value=${find} onInput=${(event) => setFind(event.target.value)} />`}
      ${can('operate') && html`<a class="button" href="#/create"><${Icon} name="plus" size=${16} /> New campaign</a>`}
    </header>
    <${ProblemNote} problem=${listed.problem} again=${listed.again} />
    ${!knows && !listed.problem && html`<${Loading} lines=${5} />`}
    ${knows && shown.length === 0 && html`<${Nothing} find=${find} />`}
    <div class="sales">
      ${shown.slice(0, most).map(({ sale, state }) => html`<${SaleRow} key=${sale.id} sale=${sale} state=${state} live=${live} changed=${listed.again} />`)}
    </div>
    ${live.sample !== null && live.sample.left_out > 0 && html`<p class="note">${count(live.sample.left_out)} more sales are not in the stream: it has the first 256.</p>`}
    ${shown.length > most && html`<p class="more"><button onClick=${() => setMost(most + ROWS)}>Show more of ${shown.length} sales</button></p>`}
    ${next && html`<${Readiness} sale=${next.sale} now=${live.now} />`}
  </div>`;
}

function Nothing({ find }) {
  if (find) return html`<${Empty} title="No sale has such a name">Campaigns lists those that are over or are drafts.<//>`;
  return html`<${Empty} title="No sale is open or begins soon">
    ${can('operate') ? html`<a href="#/create">Create a campaign</a>, or look at <a href="#/campaigns">those there are</a>.`
    : html`<a href="#/campaigns">All campaigns</a>`}
  <//>`;
}

function begin(sale) {
  return Date.parse(sale.claim_starts_at);
}

/** The stream's figures where it has them, else what the list says. */
function merged(live, listed) {
  const all = new Map(listed.map((template) => [template.id, { ...template, isListed: true }]));
  for (const sale of (live.sample && live.sample.templates) || []) all.set(sale.id, { ...all.get(sale.id), ...sale, isListed: false });
  return [...all.values()];
}

/** The newest published and paused templates: the stream has open sales only. */
function useListed() {
  const [state, set] = useState({ rows: [], done: false, problem: null });
  const [turn, next] = useState(0);
  const again = () => next((n) => n + 1);
  useEffect(() => {
    let left = false;
    // Those on call see every merchant's, as in the stream.
    const whose = isOnCall() ? 'all' : '';
    const one = (of) => read(pathOf('list_templates', {}, { state: of, limit: 100, include: 'stock', merchant_id: whose }));
    Promise.all([one('published'), one('paused')]).then(
      (pages) => left || set({ rows: pages.flatMap((page) => page.data).map(flat), done: true, problem: null }),
      (problem) => left || set((old) => ({ ...old, problem })),
    );
    const timer = setTimeout(again, READ_EVERY_MS);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [turn]);
  return { ...state, again };
}

/** Names the figures of a listed template as the stream does. What only the stream knows is absent, and so not known. */
function flat(template) {
  const stock = template.stock || {};
  // Nobody could claim yet, so MySQL's figures are all that there is.
  const isAhead = stock.landed === 0 && Date.parse(template.claim_starts_at) > Date.now();
  const untouched = isAhead ? { confirmed: 0, held: 0, in_flight: 0, drift: 0 } : {};
  return { ...template, total: stock.total, left: stock.left, ...untouched };
}
