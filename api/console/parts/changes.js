// Pause and resume, in one click with the way back: on the list of sales and on a sale's own page.

import { html } from '../core/view.js';
import { callOf } from '../calls/calls.js';
import { act } from '../core/actions.js';
import { canHalt } from '../core/session.js';
import { atGate } from '../core/at_gate.js';
import { say } from './toasts.js';
import { Icon } from './icons.js';

/** Sends a change of a template's state. */
export function changeState(sale, verb, label, more = {}) {
  return act({ ...callOf('change_template_state', { id: sale.id, verb }), label: `${label} “${sale.name}”`, ...more });
}

async function pause(sale, done) {
  const answer = await changeState(sale, 'pause', 'Pause');
  if (!answer) return;
  if (answer.status === 202) {
    atGate.set((all) => new Set(all).add(sale.id));
    say({ text: `Paused at the gate: “${sale.name}” refuses claims. The database is told once it answers.`, kind: 'warn' });
  } else {
    say({ text: `“${sale.name}” is paused: claims are refused.`, undo: () => tried(resume(sale, done)) });
  }
  done(answer);
}

async function resume(sale, done) {
  const answer = await changeState(sale, 'resume', 'Resume');
  if (!answer) return;
  atGate.set((all) => new Set([...all].filter((id) => id !== sale.id)));
  say({ text: `“${sale.name}” gives out coupons again.`, undo: () => tried(pause(sale, done)) });
  done(answer);
}

function tried(work) {
  return work.catch((problem) => say({ text: problem.message, kind: 'bad' }));
}

/** The button that stops a sale or lets it go on. */
export function HaltButton({ sale, done = () => {} }) {
  if (!canHalt()) return null;
  if (sale.state === 'published' && !atGate.get().has(sale.id)) {
    return html`<button class="halt" onClick=${() => tried(pause(sale, done))}><${Icon} name="pause" size=${16} /> Pause</button>`;
  }
  if (sale.state === 'paused' || sale.state === 'published') {
    return html`<button class="halt" onClick=${() => tried(resume(sale, done))}><${Icon} name="play" size=${16} /> Resume</button>`;
  }
  return null;
}
