// Short messages at the lower edge: what was done, and how to take it back.

import { html, useEffect } from '../core/view.js';
import { store, useStore } from '../core/store.js';

/** How long a message stays, in ms. One with an undo stays longer. */
const STAYS_MS = 5_000;
const UNDO_MS = 20_000;

const state = store([]);
let next = 1;

/** @param {{text: string, kind?: 'good'|'bad'|'warn', undo?: () => void, undoText?: string}} message */
export function say(message) {
  const toast = { id: next, kind: 'good', ...message };
  next += 1;
  state.set((all) => [...all.slice(-3), toast]);
  return toast.id;
}

export function unsay(id) {
  state.set((all) => all.filter((toast) => toast.id !== id));
}

export function Toasts() {
  const all = useStore(state);
  return html`<div class="toasts" aria-live="polite">
    ${all.map((toast) => html`<${Toast} key=${toast.id} toast=${toast} />`)}
  </div>`;
}

function Toast({ toast }) {
  useEffect(() => {
    const timer = setTimeout(() => unsay(toast.id), toast.undo ? UNDO_MS : STAYS_MS);
    return () => clearTimeout(timer);
  }, []);
  const undo = () => {
    unsay(toast.id);
    toast.undo();
  };
  return html`<div class="toast ${toast.kind}">
    <span>${toast.text}</span>
    ${toast.undo && html`<button class="link" onClick=${undo}>${toast.undoText || 'Undo'}</button>`}
    <button class="bare" aria-label="Close" onClick=${() => unsay(toast.id)}>×</button>
  </div>`;
}
