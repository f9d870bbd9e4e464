// Two objects beside each other: only what differs.

import { html } from '../../core/view.js';
import { time } from '../../core/times.js';

const INSTANT = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

/** Lists the fields of an object, nested ones by a dotted name. */
export function fields(value, prefix = '') {
  if (value === null || value === undefined || typeof value !== 'object' || Array.isArray(value)) {
    return { [prefix || 'value']: Array.isArray(value) ? value.join(', ') : value };
  }
  return Object.entries(value).reduce((all, [name, one]) => ({ ...all, ...fields(one, prefix ? `${prefix}.${name}` : name) }), {});
}

export function differences(before, after) {
  const left = before ? fields(before) : {};
  const right = after ? fields(after) : {};
  const names = [...new Set([...Object.keys(left), ...Object.keys(right)])];
  return names.filter((name) => left[name] !== right[name]).map((name) => ({ name, before: left[name], after: right[name] }));
}

/** A value for people: instants in the reader's time. */
export function shown(value) {
  if (value === undefined || value === null) return '—';
  return INSTANT.test(value) ? time(value) : String(value);
}

export function Diff({ before, after, names }) {
  const rows = differences(before, after);
  if (rows.length === 0) return html`<p class="small muted">Nothing differs.</p>`;
  return html`<table class="diff"><thead><tr><th scope="col">Field</th><th scope="col">${names[0]}</th><th scope="col">${names[1]}</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}><th scope="row">${row.name}</th>
      <td class="was">${shown(row.before)}</td><td class="is">${shown(row.after)}</td></tr>`)}</tbody></table>`;
}
