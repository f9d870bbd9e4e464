// A figure with its name. An old one is grey and says how old it is, one that is not known is hatched: never 0.

import { html } from '../core/view.js';
import { isKnown } from '../core/numbers.js';
import { ago } from '../core/times.js';

export function Figure({ name, value, text, help, kind }) {
  const known = isKnown(value);
  return html`<div class="figure ${kind || ''}" title=${help || undefined}>
    <dt>${name}</dt>
    <dd>${known ? text || value : html`<${Unknown} />`}</dd>
  </div>`;
}

export function Unknown({ text = 'not known' }) {
  return html`<span class="not-known">${text}</span>`;
}

/** How old what is shown is, if it is old. */
export function LastSeen({ live }) {
  if (!live.isStale) return null;
  if (live.age === null) return html`<span class="last-seen">waiting for the first figures</span>`;
  return html`<span class="last-seen">last seen ${ago(live.age)}</span>`;
}
