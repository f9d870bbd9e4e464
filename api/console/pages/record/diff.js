// Two objects beside each other: only what differs.

import { html } from '../../core/view.js';
import { plain } from '../../core/money.js';
import { duration, time } from '../../core/times.js';

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

/** A field's name for people, without the unit that its value is written with. */
export function label(name) {
  return name.replace(/_(ms|minor)$/, '').replaceAll('_', ' ').replaceAll('.', ', ');
}

/** A field's value for people: instants in the reader's time, durations and money in their units. */
export function shown(name, value, currency) {
  if (value === undefined || value === null || value === '') return '—';
  if (name.endsWith('_ms') && typeof value === 'number') return value === 0 ? 'none' : duration(value);
  if (name.endsWith('_minor') && currency && typeof value === 'number') return `${plain(value, currency)} ${currency}`;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return INSTANT.test(value) ? time(value) : String(value);
}

/** The currency of a template's discount, in its fields. */
export function currencyOf(...objects) {
  const has = objects.find((one) => one && one.discount && one.discount.currency);
  return has ? has.discount.currency : null;
}

export function Diff({ before, after, names }) {
  const rows = differences(before, after);
  const currency = currencyOf(after, before);
  if (rows.length === 0) return html`<p class="small muted">Nothing differs.</p>`;
  return html`<table class="diff"><thead><tr><th scope="col">Field</th><th scope="col">${names[0]}</th><th scope="col">${names[1]}</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}><th scope="row">${label(row.name)}</th>
      <td class="was">${shown(row.name, row.before, currency)}</td><td class="is">${shown(row.name, row.after, currency)}</td></tr>`)}</tbody></table>`;
}
