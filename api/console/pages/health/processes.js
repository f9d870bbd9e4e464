// Every process with its parts. One that does not answer keeps its name.

import { html } from '../../core/view.js';
import { time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Table } from '../../parts/rows.js';
import { partsOf } from './picture.js';

const COLUMNS = [
  { name: 'Process', show: (row) => html`<b>${row.process || row.name || 'unknown'}</b> <span class="small muted">${row.address || ''}</span>` },
  { name: 'State', show: (row) => html`<${Chip} word=${row.status} />` },
  { name: 'Build', show: (row) => (row.version ? html`${row.version}${row.commit && row.commit !== 'unknown' && html` <span class="small muted">${row.commit}</span>`}` : '') },
  { name: 'Since', show: (row) => time(sinceOf(row), 'minute') },
  { name: 'What is wrong', show: (row) => html`<${Wrong} one=${row} />` },
];

/** When it began: one part of every process is itself. */
function sinceOf(row) {
  const own = partsOf(row).find((part) => part.name === 'process');
  return own ? own.since : null;
}

export function Processes({ health }) {
  return html`<section class="panel" aria-label="Processes"><header class="panel-head"><h2>Processes</h2></header>
    <${Table} columns=${COLUMNS} rows=${health.processes} keyOf=${(row) => (row.process || '') + (row.address || '')} label="Processes" />
  </section>`;
}

function Wrong({ one }) {
  const parts = partsOf(one).filter((part) => !part.ready);
  if (!one.error && parts.length === 0) return html`<span class="muted">nothing</span>`;
  return html`<ul class="plain">${one.error && html`<li>${one.error}</li>`}
    ${parts.map((part) => html`<li key=${part.name}>${part.name}: ${part.why || 'not ready'}${part.since && html`, since ${time(part.since, 'clock')}`}</li>`)}</ul>`;
}
