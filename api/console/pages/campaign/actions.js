// What an operator can do to a campaign. Before each step the dialog says what it will do to a sale that runs.

import { html, useState } from '../../core/view.js';
import { callOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { count, isKnown, rate } from '../../core/numbers.js';
import { go, to } from '../../core/router.js';
import { can, isForeign, isOnCall } from '../../core/session.js';
import { changeState, HaltButton } from '../../parts/changes.js';
import { Confirm } from '../../parts/confirm.js';
import { Field, Tick, Text } from '../../parts/field.js';
import { say } from '../../parts/toasts.js';

export function Actions({ sale, etag, state, live, again }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const done = () => {
    close();
    again();
  };
  const may = can('operate') && !isForeign(sale);
  const is = (...states) => states.includes(sale.state);
  const dialogs = { publish: Publish, end: End, move: Move, clone: Clone, remove: Remove, rebuild: Rebuild, drain: DrainEnd };
  const Open = dialogs[open];
  const button = (name, text, kind) => html`<button class=${kind || ''} onClick=${() => setOpen(name)}>${text}</button>`;
  return html`<div class="actions">
    ${may && is('draft') && button('publish', 'Publish…', 'main')}
    <${HaltButton} sale=${sale} done=${again} />
    ${may && !is('ended') && html`<a class="button" href=${to(['edit', sale.id])}>Edit</a>`}
    ${may && !is('ended') && button('move', 'Add or cut stock…')}
    ${may && button('clone', 'Clone…')}
    ${may && is('published', 'paused') && button('end', 'End…', 'quiet-danger')}
    ${may && is('draft') && button('remove', 'Delete…', 'quiet-danger')}
    ${may && is('published', 'paused') && button('rebuild', 'Rebuild gate…')}
    ${(can('admin') || isOnCall()) && isKnown(sale.queued_epoch) && sale.queued_epoch < sale.epoch && button('drain', 'End the drain…', 'quiet-danger')}
    ${Open && html`<${Open} sale=${sale} etag=${etag} state=${state} live=${live} close=${close} done=${done} />`}
  </div>`;
}

/** The sale as it runs, in a line. */
function Impact({ sale, live }) {
  const speed = isKnown(sale.given_per_second) ? `${rate(sale.given_per_second)} given out a second` : 'how fast it sells is not known';
  return html`<p class="impact ${live.isStale ? 'is-stale' : ''}"><b>${count(sale.left)}</b> left, ${speed}${live.isStale ? ' (old figures)' : ''}.</p>`;
}

function Publish({ sale, close, done }) {
  const run = async () => {
    await changeState(sale, 'publish', 'Publish');
    say({ text: `“${sale.name}” is published.` });
    done();
  };
  return html`<${Confirm} title="Publish “${sale.name}”" does="Publish" run=${run} close=${close}>
    <p>From now on shops show it, and the discount, the limit and the holds stay as promised.</p>
  <//>`;
}

function End({ sale, live, close, done }) {
  const [reject, set] = useState(false);
  const isQueued = sale.claim_mode !== 'direct';
  const run = async ({ confirm }) => {
    const body = { confirm, ...(isQueued && reject ? { accepted: 'reject' } : {}) };
    await changeState(sale, 'end', 'End', { body });
    say({ text: `“${sale.name}” has ended.` });
    done();
  };
  const extra = isQueued && html`<${Tick} id="reject" checked=${reject} change=${set} label="Reject what waits in the queue"
    help=${`Otherwise the ${count(sale.queued)} claims that were accepted still land.`} />`;
  return html`<${Confirm} title="End “${sale.name}”" does="End for good" danger name=${sale.name} run=${run} close=${close} extra=${extra}>
    <${Impact} sale=${sale} live=${live} />
    <p>Nobody can claim any more. Coupons that users have stay as they are.</p>
  <//>`;
}

function Move({ sale, live, close, done }) {
  const [text, type] = useState('');
  const delta = /^[+−-]?\d{1,10}$/.test(text.trim()) ? Number(text.trim().replace('−', '-')) : null;
  const isCut = delta !== null && delta < 0;
  const run = async ({ reason, confirm }) => {
    if (!delta) throw new Error('Write a number other than 0.');
    const body = { delta, reason, ...(isCut ? { confirm } : {}) };
    const label = isCut ? `Cut ${-delta} of` : `Add ${delta} to`;
    const answer = await act({ ...callOf('move_stock', { id: sale.id }), body, label: `${label} “${sale.name}”` });
    if (answer) say({ text: `“${sale.name}” now gives out ${count(answer.body.total)} in all; ${count(answer.body.stock)} are left.` });
    done();
  };
  const after = delta && isKnown(sale.total) ? html`<p>The total becomes <b>${count(sale.total + delta)}</b>${isKnown(sale.left) && html`, and <b>${count(Math.max(0, sale.left + delta))}</b> are left`}.</p>` : null;
  const extra = html`<${Field} id="delta" label="Coupons to add, or to cut with a minus" wrong=${text && delta === null ? 'Write a whole number, for example 500 or -20.' : null}>
      <${Text} id="delta" value=${text} change=${type} inputmode="numeric" placeholder="500" />
    <//>${after}`;
  return html`<${Confirm} title="Add or cut stock" does=${isCut ? 'Cut' : 'Add'} danger=${isCut} name=${isCut ? sale.name : null} reason
    run=${run} close=${close} extra=${extra}>
    <${Impact} sale=${sale} live=${live} />
  <//>`;
}

function Clone({ sale, close }) {
  const [name, type] = useState(`${sale.name} (copy)`);
  const run = async () => {
    const answer = await act({ ...callOf('clone_template', { id: sale.id }), body: { name }, label: `Clone “${sale.name}”` });
    if (answer) go(['edit', answer.body.id]);
  };
  const extra = html`<${Field} id="name" label="Name of the copy"><${Text} id="name" value=${name} change=${type} maxlength="200" /><//>`;
  return html`<${Confirm} title="Clone “${sale.name}”" does="Clone" run=${run} close=${close} extra=${extra}>
    <p>The copy is a draft with the same terms and window, and none of the claims.</p>
  <//>`;
}

function Remove({ sale, close }) {
  const run = async () => {
    await act({ ...callOf('delete_template', { id: sale.id }), label: `Delete “${sale.name}”`, keyless: true });
    say({ text: `The draft “${sale.name}” is deleted.` });
    go(['campaigns']);
  };
  return html`<${Confirm} title="Delete “${sale.name}”" does="Delete" danger run=${run} close=${close}><p>Only a draft can be deleted.</p><//>`;
}

function Rebuild({ sale, close, done }) {
  const run = async () => {
    await act({ ...callOf('rebuild_gate', { id: sale.id }), label: `Rebuild the gate of “${sale.name}”` });
    say({ text: `The gate of “${sale.name}” is made anew.` });
    done();
  };
  return html`<${Confirm} title="Rebuild the gate" does="Rebuild" run=${run} close=${close}>
    <p>The gate is loaded from MySQL again. It is safe while users claim: claims wait for milliseconds, up to seconds with a million holders.</p>
  <//>`;
}

function DrainEnd({ sale, close, done }) {
  const run = async ({ confirm }) => {
    await act({ ...callOf('end_drain', { id: sale.id }), body: { confirm }, label: `End the drain of “${sale.name}”` });
    say({ text: 'The gate is loaded without its old queue.' });
    done();
  };
  return html`<${Confirm} title="End the drain" does="Give the queue up" danger name=${sale.name} run=${run} close=${close}>
    <p>What was queued under the lost gate and has not landed is given up. Prefer to wait for it.</p>
  <//>`;
}
