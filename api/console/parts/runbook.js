// Links to sections of the runbook. The api's sentences name them, `(runbook: NAME)`; where the runbook is, is a setting of
// the api (RUNBOOK_URL).

import { html } from '../core/view.js';
import { store, useStore } from '../core/store.js';

const place = store('');

fetch('./console/settings.json').then((answer) => answer.json()).then(
  (settings) => place.set(settings.runbook || ''),
  () => null,
);

/** A link to a section, or its name if nobody has said where the runbook is. */
export function Runbook({ section }) {
  const base = useStore(place);
  if (!section) return null;
  if (!base) return html`<span class="muted">runbook: ${section}</span>`;
  return html`<a href="${base}#${section.toLowerCase()}" target="_blank" rel="noreferrer">runbook: ${section}</a>`;
}

/** Splits a sentence at `(runbook: NAME)`. */
export function withRunbook(sentence) {
  const match = /\s*\(runbook: (\w+)\)/.exec(sentence || '');
  if (!match) return { text: sentence, section: null };
  return { text: sentence.replace(match[0], ''), section: match[1] };
}
