// Grants: a list of users is dropped, looked at, and given coupons; each row has an outcome.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useList } from '../../core/load.js';
import { count } from '../../core/numbers.js';
import { to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Listed } from '../../parts/rows.js';
import { Job } from './job.js';
import { NewGrants } from './new_grants.js';

const COLUMNS = [
  { name: 'Begun', show: (row) => html`<a href=${to(['grants', row.id])}>${time(row.created_at)}</a>` },
  { name: 'Why', show: (row) => row.reason },
  { name: 'State', show: (row) => html`<${Chip} word=${row.state} />` },
  { name: 'Users', kind: 'number', show: (row) => count(row.rows) },
  { name: 'Each', kind: 'number', show: (row) => count(row.quantity) },
  { name: 'Ended', show: (row) => (row.ended_at ? time(row.ended_at) : row.waits_for ? html`waits: <code>${row.waits_for}</code>` : '') },
];

export function Grants({ id }) {
  if (id) return html`<${Job} id=${id} />`;
  return html`<div class="page">
    <header class="page-head"><h1>Grants</h1></header>
    ${can('operate') && html`<${NewGrants} />`}
    <${Jobs} />
  </div>`;
}

function Jobs() {
  const list = useList(pathOf('list_jobs'), { limit: 20 });
  return html`<section class="panel" aria-label="Jobs"><header class="panel-head"><h2>Jobs</h2><button class="link" onClick=${list.again}>Read again</button></header>
    <${Listed} list=${list} columns=${COLUMNS} keyOf=${(row) => row.id} label="Jobs" empty=${['No grants yet', 'Drop a list of users above.']} />
  </section>`;
}
