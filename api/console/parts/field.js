// Fields of a form: the label above, the help and what is wrong below, all tied together for screen readers.

import { html } from '../core/view.js';

/** @param {{id: string, label: string, help?: any, wrong?: string|null, children: any}} props */
export function Field({ id, label, help, wrong, children, note }) {
  return html`<div class="field ${wrong ? 'is-wrong' : ''}">
    <label for=${id}>${label}</label>
    ${children}
    ${note && html`<p class="field-note">${note}</p>`}
    ${wrong ? html`<p class="wrong" id="${id}-help">${wrong}</p>` : help && html`<p class="help" id="${id}-help">${help}</p>`}
  </div>`;
}

export function Text({ id, value, change, wrong, ...more }) {
  return html`<input id=${id} value=${value} aria-describedby="${id}-help" aria-invalid=${wrong ? 'true' : 'false'}
    onInput=${(event) => change(event.target.value)} autocomplete="off" ...${more} />`;
}

export function Choice({ id, value, change, options, disabled }) {
  return html`<select id=${id} value=${value} disabled=${disabled} aria-describedby="${id}-help" onChange=${(event) => change(event.target.value)}>
    ${options.map(([word, text]) => html`<option key=${word} value=${word} selected=${word === value}>${text}</option>`)}
  </select>`;
}

export function Tick({ id, checked, change, label, help, disabled }) {
  return html`<div class="field tick">
    <input type="checkbox" id=${id} checked=${checked} disabled=${disabled} aria-describedby="${id}-help"
      onChange=${(event) => change(event.target.checked)} />
    <div><label for=${id}>${label}</label>${help && html`<p class="help" id="${id}-help">${help}</p>`}</div>
  </div>`;
}

/** Tabs as links, so that each can be sent to a colleague. */
export function Tabs({ tabs, present, address }) {
  return html`<nav class="tabs" aria-label="Parts of this page">
    ${tabs.map(([word, text]) => html`<a key=${word} href=${address(word)} aria-current=${word === present ? 'page' : undefined}>${text}</a>`)}
  </nav>`;
}
