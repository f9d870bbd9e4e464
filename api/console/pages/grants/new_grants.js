// A new job: the file is read here, its rows are shown, and only then it is sent.

import { html, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useDraft } from '../../core/draft.js';
import { useList } from '../../core/load.js';
import { count, several } from '../../core/numbers.js';
import { go } from '../../core/router.js';
import { campaignOption } from '../../parts/campaign_link.js';
import { useRunning } from '../../parts/confirm.js';
import { Choice, Field, Text, Tick } from '../../parts/field.js';
import { ProblemNote } from '../../parts/problem.js';
import { readUsers, ROWS_MAX } from './users_file.js';

const FIRST = { text: '', template: '', quantity: '1', reason: '', fromStock: true };

/** Rows of the file that are shown. */
const SHOWN = 8;

export function NewGrants() {
  const draft = useDraft('grants', FIRST);
  const form = draft.value;
  const running = useRunning();
  const templates = useList(pathOf('list_templates'), { state: 'published', limit: 100 });
  const users = readUsers(form.text);
  const chosen = templates.rows.find((row) => row.id === form.template);
  const quantity = /^\d{1,3}$/.test(form.quantity) ? Number(form.quantity) : 0;
  const gets = quantity * users.gets;
  const isReady = chosen && quantity > 0 && form.reason.trim() && users.gets > 0 && users.rows.length <= ROWS_MAX;
  const submit = (event) => {
    event.preventDefault();
    if (!isReady) return;
    running.run(async () => {
      const body = {
        user_ids: users.rows.map((row) => row.given), quantity, reason: form.reason.trim(), from_stock: form.fromStock,
        ...(chosen.hold_ms > 0 ? { confirmed: true } : {}),
      };
      const label = `Grant “${chosen.name}” to ${several(users.rows.length, 'user')}`;
      const answer = await act({ ...callOf('grant_coupons', { id: form.template }), body, label });
      if (!answer) return;
      draft.drop(FIRST);
      go(['grants', answer.body.id]);
    });
  };
  const options = [['', 'Choose a campaign'], ...templates.rows.map(campaignOption)];
  return html`<form class="panel" onSubmit=${submit}>
    <h2>Give coupons to a list of users</h2>
    <${Drop} form=${form} change=${draft.change} />
    ${users.rows.length > 0 && html`<${Rows} users=${users} />`}
    <div class="row">
      <${Field} id="grant-template" label="Campaign"><${Choice} id="grant-template" value=${form.template} change=${(template) => draft.change({ template })} options=${options} /><//>
      <${Field} id="grant-quantity" label="Coupons for each"><${Text} id="grant-quantity" value=${form.quantity} change=${(q) => draft.change({ quantity: q })} inputmode="numeric" size="4" /><//>
    </div>
    ${chosen && chosen.hold_ms > 0 && html`<p class="note">This campaign holds its coupons until they are paid for. What is granted is confirmed at once.</p>`}
    <${Field} id="grant-reason" label="Reason" help="For people who read the record."><${Text} id="grant-reason" value=${form.reason} change=${(reason) => draft.change({ reason })} maxlength="200" /><//>
    <${Tick} id="grant-stock" checked=${form.fromStock} change=${(fromStock) => draft.change({ fromStock })} label="Take them from the stock" help="Otherwise as many are added to the total first." />
    <${ProblemNote} problem=${running.problem} />
    <footer><button class="main" disabled=${!isReady || running.running}>${running.running ? 'Sending…' : gets > 0 ? `Grant ${several(gets, 'coupon')}` : 'Grant'}</button></footer>
  </form>`;
}

function Drop({ form, change }) {
  const [over, set] = useState(false);
  const take = async (file) => file && change({ text: await file.text() });
  const dropped = (event) => {
    event.preventDefault();
    set(false);
    take(event.dataTransfer.files[0]);
  };
  return html`<div class="drop ${over ? 'over' : ''}" onDragOver=${(event) => { event.preventDefault(); set(true); }} onDragLeave=${() => set(false)} onDrop=${dropped}>
    <${Field} id="users" label="Users" help="Drop a CSV file here, choose one, or paste numbers, one a line. The column user_id is taken, or the first one.">
      <textarea id="users" rows="4" value=${form.text} onInput=${(event) => change({ text: event.target.value })} spellcheck=${false}></textarea>
    <//>
    <label class="button file">Choose a file<input type="file" accept=".csv,.txt,text/csv,text/plain" onChange=${(event) => take(event.target.files[0])} /></label>
  </div>`;
}

function Rows({ users }) {
  const { rows, odd, twice } = users;
  return html`<div class="rows-read">
    <p><b>${several(rows.length, 'row')}</b>${odd > 0 && html`, <span class="wrong">${count(odd)} of them no number: they get none</span>`}
      ${twice > 0 && html`, ${count(twice)} named twice: they get coupons once`}.
      ${rows.length > ROWS_MAX && html` <span class="wrong">A job has at most ${count(ROWS_MAX)}: split the file.</span>`}</p>
    <ol class="sample">${rows.slice(0, SHOWN).map((row, at) => html`<li key=${at} class=${row.isNumber ? '' : 'wrong'}>${row.given}</li>`)}
      ${rows.length > SHOWN && html`<li class="muted">and ${count(rows.length - SHOWN)} more</li>`}</ol>
  </div>`;
}
