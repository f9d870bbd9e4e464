// Create or edit a campaign, beside what a shopper will see of it.

import { html, useMemo, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useDraft } from '../../core/draft.js';
import { ask } from '../../core/api.js';
import { useLoad } from '../../core/load.js';
import { go, to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { useRunning } from '../../parts/confirm.js';
import { Empty, ProblemNote, Read } from '../../parts/problem.js';
import { say } from '../../parts/toasts.js';
import { Diff } from '../record/diff.js';
import { Conflict } from './conflict.js';
import { Fields } from './fields.js';
import { bodyOf, editOf, formOf, newForm } from './form.js';
import { Preview } from './preview.js';

export function Edit({ id }) {
  if (!can('operate')) return html`<${Empty} title="This key may not change campaigns">It may look at <a href="#/campaigns">those there are</a>.<//>`;
  return id ? html`<${Existing} id=${id} />` : html`<${New} />`;
}

function New() {
  const first = useMemo(newForm, []);
  const draft = useDraft('create', first);
  const running = useRunning();
  const read = bodyOf(draft.value);
  const [tried, setTried] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setTried(true);
    if (Object.keys(read.wrong).length > 0) return;
    await running.run(async () => {
      const answer = await act({ ...callOf('create_template'), body: read.body, label: `Create “${read.body.name}”` });
      if (!answer) return;
      draft.drop(newForm());
      say({ text: `The draft “${read.body.name}” is made. Publish it when it is right.` });
      go(['campaign', answer.body.id]);
    });
  };
  return html`<${Page} title="New campaign" draft=${draft} read=${read} running=${running} submit=${submit} does="Create the draft" state="draft" tried=${tried} />`;
}

function Existing({ id }) {
  const template = useLoad(pathOf('get_template', { id }));
  return html`<${Read} of=${template}>${(data) => html`<${Editor} key=${data.id} template=${data} etag=${template.etag} />`}<//>`;
}

function Editor({ template, etag }) {
  // The version that was opened: others' changes since are found by the api, and shown.
  const [base, setBase] = useState({ template, etag });
  const draft = useDraft(`edit-${template.id}`, formOf(template));
  const [conflict, setConflict] = useState(null);
  const running = useRunning();
  const [tried, setTried] = useState(false);
  const read = bodyOf(draft.value);
  const before = bodyOf(formOf(base.template)).body;
  const edit = editOf(before, read.body);
  const save = async (against, change) => {
    const body = { ...change, ...(touchesValidity(change) ? { issued_coupons: draft.value.issued } : {}) };
    const sent = { ...callOf('edit_template', { id: template.id }), body, ifMatch: against, label: `Edit “${template.name}”`, keyless: true };
    try {
      await act(sent);
    } catch (problem) {
      if (problem.status !== 412) throw problem;
      const now = await ask('get_template', { id: template.id });
      const theirs = bodyOf(formOf(now.body)).body;
      // An answer was lost, and the change was made: nothing is left to change.
      if (Object.keys(editOf(theirs, { ...theirs, ...change })).length > 0) {
        setConflict({ theirs, template: now.body, etag: now.etag, change });
        return;
      }
    }
    draft.drop(formOf(template));
    say({ text: `“${read.body.name}” is changed.` });
    go(['campaign', template.id]);
  };
  const submit = (event) => {
    event.preventDefault();
    setTried(true);
    if (Object.keys(read.wrong).length === 0 && Object.keys(edit).length > 0) running.run(() => save(base.etag, edit));
  };
  const settle = {
    mine: () => {
      setConflict(null);
      setBase({ template: conflict.template, etag: conflict.etag });
      running.run(() => save(conflict.etag, conflict.change));
    },
    theirs: () => {
      setConflict(null);
      setBase({ template: conflict.template, etag: conflict.etag });
      draft.drop(formOf(conflict.template));
    },
    close: () => setConflict(null),
  };
  const changed = Object.keys(edit).length;
  return html`<${Page} title="Edit “${template.name}”" draft=${draft} read=${read} running=${running} submit=${submit} does="Save"
      state=${base.template.state} tried=${tried} unchanged=${changed === 0} back=${to(['campaign', template.id])}>
    ${changed > 0 && html`<section class="panel"><h2>What changes</h2><${Diff} before=${before} after=${{ ...before, ...edit }} names=${['now', 'then']} /></section>`}
    ${conflict && html`<${Conflict} before=${before} conflict=${conflict} settle=${settle} />`}
  <//>`;
}

function touchesValidity(change) {
  return ['valid_for_ms', 'valid_from', 'valid_until'].some((name) => name in change);
}

function Page({ title, draft, read, running, submit, does, state, tried, unchanged, back, children }) {
  const all = tried || draft.touched ? { ...read.wrong, ...byField(running.problem) } : {};
  // That a name is missing is no news to whom is about to type it.
  const wrong = tried || draft.value.name ? all : { ...all, name: undefined };
  const isWrong = Object.keys(read.wrong).length > 0;
  return html`<div class="page">
    <header class="page-head"><h1>${title}</h1>
      ${draft.touched && html`<button class="link" onClick=${() => draft.drop()}>Begin anew</button>`}</header>
    <div class="beside">
      <form class="edit" onSubmit=${submit} novalidate>
        <${Fields} form=${draft.value} change=${draft.change} wrong=${wrong} twice=${read.twice} state=${state} isNew=${!back} />
        <${ProblemNote} problem=${running.problem} />
        <footer>
          ${back && html`<a class="button" href=${back}>Cancel</a>`}
          ${tried && isWrong && html`<p class="wrong" role="alert">Something above is not right yet.</p>`}
          <button class="main" disabled=${running.running || unchanged}>${running.running ? 'Sending…' : does}</button>
        </footer>
      </form>
      <aside><${Preview} read=${read} warns=${state === 'draft'} /> ${children}</aside>
    </div>
  </div>`;
}

/** The api names the field that it refuses; the form has other names for some. */
const NAMES = {
  'discount.percent_off': 'percent', 'discount.amount_off_minor': 'amount', 'discount.cap_minor': 'cap', 'discount.minimum_spend_minor': 'minimum',
  'discount.currency': 'currency', claim_starts_at: 'starts', claim_ends_at: 'ends', valid_for_ms: 'valid_for', hold_ms: 'hold',
};

function byField(problem) {
  const field = problem && problem.body && problem.body.field;
  return field ? { [NAMES[field] || field]: problem.message } : {};
}
