// What an operator confirms: with a reason, or by typing the name of what cannot be taken back.

import { html, useState } from '../core/view.js';
import { Dialog } from './dialog.js';
import { Field, Text } from './field.js';
import { ProblemNote } from './problem.js';

/** Longest reason that the api takes. */
const REASON_MAX = 200;

/** Runs a change once at a time, and keeps what refused it. */
export function useRunning() {
  const [state, set] = useState({ running: false, problem: null });
  const run = async (work) => {
    if (state.running) return false;
    set({ running: true, problem: null });
    try {
      await work();
      set({ running: false, problem: null });
      return true;
    } catch (problem) {
      set({ running: false, problem });
      return false;
    }
  };
  return { ...state, run };
}

/**
 * A dialog that asks before a change.
 * `name`: what must be typed, for a change that cannot be taken back. `reason`: whether one is asked for.
 */
export function Confirm({ title, children, does, name, reason, run, close, danger, extra }) {
  const [typed, type] = useState('');
  const [why, say] = useState('');
  const running = useRunning();
  const isTyped = !name || typed === name;
  const isSaid = !reason || why.trim().length > 0;
  const submit = async (event) => {
    event.preventDefault();
    if (!isTyped || !isSaid) return;
    const done = await running.run(() => run({ reason: why.trim(), confirm: typed }));
    if (done) close();
  };
  return html`<${Dialog} title=${title} close=${close}>
    <form onSubmit=${submit}>
      ${children}
      ${extra}
      ${reason && html`<${Field} id="reason" label="Reason" help="For people who read the record.">
        <${Text} id="reason" value=${why} change=${say} maxlength=${REASON_MAX} required />
      <//>`}
      ${name && html`<${Field} id="typed-name" label="Type the name to confirm" help=${html`It is <strong class="quoted">${name}</strong>. This cannot be taken back.`}>
        <${Text} id="typed-name" value=${typed} change=${type} spellcheck=${false} />
      <//>`}
      <${ProblemNote} problem=${running.problem && running.problem.status === 401 ? null : running.problem} />
      <footer>
        <button type="button" onClick=${close}>Cancel</button>
        <button class=${danger ? 'danger' : 'main'} disabled=${!isTyped || !isSaid || running.running}>
          ${running.running ? 'Sending…' : does}
        </button>
      </footer>
    </form>
  <//>`;
}
