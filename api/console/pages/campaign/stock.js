// What changed the stock: operators' movements, and the ledger with every claim and return, which sums up to the stock.

import { html, useState } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { saveCsv } from '../../core/files.js';
import { useList } from '../../core/load.js';
import { count, signed } from '../../core/numbers.js';
import { refine, to } from '../../core/router.js';
import { time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Choice } from '../../parts/field.js';
import { Listed } from '../../parts/rows.js';
import { say } from '../../parts/toasts.js';

const KINDS = [['', 'Everything'], ['claim', 'Claims'], ['total', 'Changes of the total'], ['return', 'Returns'], ['lift', 'Lifted bans']];

const ledgerOf = (sale) => [
  { name: 'When', show: (row) => time(row.at) },
  { name: 'What', show: (row) => html`<${Chip} word=${row.kind} kind="plain" />` },
  { name: 'Stock', kind: 'number', show: (row) => signed(row.quantity) },
  { name: 'Total', kind: 'number', show: (row) => (row.total_change ? signed(row.total_change) : '') },
  { name: 'Who and why', show: (row) => (row.claim_id ? html`user <a href=${to(['customer', 'user', row.user_id])}>${row.user_id}</a>,${' '}
      <a href=${to(['customer', 'claim', row.claim_id], { template: sale.id })}>claim</a>` : `${row.actor || ''}${row.reason ? `: ${row.reason}` : ''}`) },
];

const MOVEMENTS = [
  { name: 'No.', kind: 'number', show: (row) => row.seq },
  { name: 'When', show: (row) => time(row.created_at) },
  { name: 'Total', kind: 'number', show: (row) => signed(row.delta) },
  { name: 'Stock', kind: 'number', show: (row) => signed(row.delta_stock) },
  { name: 'After', kind: 'number', show: (row) => `${count(row.stock)} of ${count(row.total)}` },
  { name: 'Who and why', show: (row) => `${row.actor}: ${row.reason}` },
];

export function Stock({ sale, query }) {
  const ofMovements = pathOf('list_template_movements', { id: sale.id });
  const ofLedger = pathOf('get_ledger', { id: sale.id });
  const movements = useList(ofMovements, { limit: 20 });
  const ledger = useList(ofLedger, { kind: query.kind, limit: 20 });
  const totals = ledger.first && ledger.first.totals;
  return html`
    <section class="panel" aria-label="Movements">
      <header class="panel-head"><h2>Movements</h2><${Csv} name="movements" path=${ofMovements} id=${sale.id} /></header>
      <${Listed} list=${movements} columns=${MOVEMENTS} keyOf=${(row) => row.seq} label="Movements" empty=${['No movement yet', '']} />
    </section>
    <section class="panel" aria-label="Ledger">
      <header class="panel-head"><h2>Ledger</h2>
        <label class="hidden" for="kind">Kind</label>
        <${Choice} id="kind" value=${query.kind || ''} change=${(kind) => refine({ kind })} options=${KINDS} />
        <${Csv} name="ledger" path=${ofLedger} id=${sale.id} />
      </header>
      ${totals && html`<p class="sums">
        ${totals.kinds.map((kind) => html`<span key=${kind.kind}><b>${signed(kind.quantity)}</b> ${kind.kind}</span>`)}
        <span><b>${signed(totals.claims)}</b> claims</span><span>= <b>${count(totals.stock)}</b> in stock</span></p>`}
      <${Listed} list=${ledger} columns=${ledgerOf(sale)} keyOf=${(row) => row.claim_id || `m${row.seq}`} label="Ledger" empty=${['Nothing of this kind', '']} />
    </section>`;
}

function Csv({ name, path, id }) {
  const [running, set] = useState(false);
  const save = async () => {
    set(true);
    await saveCsv(`${name}-${id}.csv`, path).catch((problem) => say({ text: problem.message, kind: 'bad' }));
    set(false);
  };
  return html`<button onClick=${save} disabled=${running}>${running ? 'Reading…' : 'Save as CSV'}</button>`;
}
