// A job of grants: how far it is, and the outcome of each row.

import { html, useEffect, useState } from '../../core/view.js';
import { act } from '../../core/actions.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { read } from '../../core/api.js';
import { csv, save } from '../../core/files.js';
import { useList, useLoad } from '../../core/load.js';
import { count } from '../../core/numbers.js';
import { to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { time } from '../../core/times.js';
import { CampaignLink } from '../../parts/campaign_link.js';
import { Chip } from '../../parts/chips.js';
import { Confirm } from '../../parts/confirm.js';
import { Choice } from '../../parts/field.js';
import { Read } from '../../parts/problem.js';
import { Listed } from '../../parts/rows.js';
import { say } from '../../parts/toasts.js';

export function Job({ id }) {
  const job = useLoad(pathOf('get_job', { id }), 2_000);
  return html`<div class="page"><header class="page-head"><h1>Grants</h1><a href="#/grants">All jobs</a></header>
    <${Read} of=${job}>${(data) => html`<${Body} job=${data} again=${job.again} />`}<//></div>`;
}

function Body({ job, again }) {
  const [cancels, set] = useState(false);
  const isOver = Boolean(job.ended_at);
  const done = job.rows - job.pending;
  const run = async ({ reason }) => {
    await act({ ...callOf('cancel_job', { id: job.id }), body: { reason }, label: `Cancel job ${job.id}`, keyless: true });
    say({ text: 'The job is cancelled. What was granted stays.' });
    again();
  };
  return html`
    <section class="panel">
      <p class="subtitle">${job.reason}</p>
      <p><${Chip} word=${job.state} /> ${count(done)} of ${count(job.rows)} rows, ${count(job.quantity)} each, of${' '}
        <${CampaignLink} id=${job.template_id} />. Begun ${time(job.created_at)}${isOver && html`, ended ${time(job.ended_at)}`}.</p>
      ${job.waits_for && html`<p class="note warn">It waits: <code>${job.waits_for}</code>.</p>`}
      <progress max=${job.rows} value=${done} aria-label="Rows with an outcome">${done}</progress>
      <ul class="reasons">${Object.entries(job.outcomes).map(([name, number]) => html`<li key=${name}><span>${name.replaceAll('_', ' ')}</span><b>${count(number)}</b></li>`)}</ul>
      ${!isOver && can('operate') && html`<button class="quiet-danger" onClick=${() => set(true)}>Cancel…</button>`}
    </section>
    <${Outcomes} job=${job} />
    ${cancels && html`<${Confirm} title="Cancel the job" does="Cancel it" danger reason run=${run} close=${() => set(false)}>
      <p>What was granted stays granted. All other rows are cancelled.</p><//>`}`;
}

function Outcomes({ job }) {
  const [outcome, choose] = useState('');
  const [saving, set] = useState(false);
  const list = useList(pathOf('list_job_rows', { id: job.id }), { outcome, limit: 50 });
  // Rows that had no outcome yet have one now.
  useEffect(list.again, [job.pending]);
  const options = [['', 'Every outcome'], ...Object.keys(job.outcomes).map((name) => [name, name.replaceAll('_', ' ')])];
  const columns = [
    { name: 'Row', kind: 'number', show: (row) => row.row },
    { name: 'User', show: (row) => (row.user_id ? html`<a href=${to(['customer', 'user', row.user_id])}>${row.user_id}</a>` : row.given) },
    { name: 'Outcome', show: (row) => html`<${Chip} word=${row.outcome} />` },
    { name: 'Claim', show: (row) => (row.claim_id ? html`<a href=${to(['customer', 'claim', row.claim_id], { template: job.template_id })}>${row.claim_id}</a>` : '') },
  ];
  const saveAll = async () => {
    set(true);
    try {
      const rows = await all(job.id);
      save(`job-${job.id}.csv`, csv(['row', 'user_id', 'given', 'outcome', 'claim_id'], rows));
    } catch (problem) {
      say({ text: problem.message, kind: 'bad' });
    }
    set(false);
  };
  return html`<section class="panel" aria-label="Rows"><header class="panel-head"><h2>Rows</h2>
      <label class="hidden" for="outcome">Outcome</label><${Choice} id="outcome" value=${outcome} change=${choose} options=${options} />
      <button onClick=${saveAll} disabled=${saving}>${saving ? 'Reading…' : 'Save as CSV'}</button>
      <button class="link" onClick=${list.again}>Read again</button></header>
    <${Listed} list=${list} columns=${columns} keyOf=${(row) => row.row} label="Rows" empty=${['No row has this outcome', '']} /></section>`;
}

async function all(id) {
  const rows = [];
  let cursor = '';
  do {
    const page = await read(pathOf('list_job_rows', { id }, { limit: 100, cursor }));
    rows.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor);
  return rows;
}
