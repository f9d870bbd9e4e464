// Changes whose answer was lost: sent again under their key, they take effect once.

import { html } from '../core/view.js';
import { actions, giveUp, sendAgain } from '../core/actions.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { say } from './toasts.js';

export function Unanswered() {
  const all = Object.entries(useStore(actions));
  const { identity } = session.get();
  const mine = all.filter(([, change]) => identity && change.by === identity.key_id);
  const shown = mine.filter(([, change]) => change.state === 'unanswered' || change.attempt > 1);
  if (shown.length === 0) return null;
  return html`<section class="unanswered" role="status" aria-label="Changes without an answer">
    ${shown.map(([key, change]) => html`<${Line} key=${key} name=${key} change=${change} />`)}
  </section>`;
}

function Line({ name, change }) {
  const again = () => sendAgain(name).then(
    () => say({ text: `${change.label}: done.` }),
    (problem) => say({ text: `${change.label}: ${problem.message}`, kind: 'bad' }),
  );
  if (change.state === 'sending') {
    return html`<p><strong>${change.label}</strong>: no answer yet. Sending the same request again, attempt ${change.attempt}.</p>`;
  }
  return html`<p><strong>${change.label}</strong>: whether it was done is not known. ${change.why || ''}${' '}
    <button class="link" onClick=${again}>Send it again</button> (it takes effect once)${' '}
    <button class="link" onClick=${() => giveUp(name)}>Leave it</button></p>`;
}
