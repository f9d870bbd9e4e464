// What operators did, with the object before and after.

import { html, useState } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useList } from '../../core/load.js';
import { to } from '../../core/router.js';
import { time } from '../../core/times.js';
import { Diff } from './diff.js';
import { Listed } from '../../parts/rows.js';

export function RecordList({ query }) {
  const list = useList(pathOf('list_audit'), { ...query, limit: 20 });
  const columns = [
    { name: 'When', show: (row) => time(row.at) },
    { name: 'What', show: (row) => html`<b title=${row.action}>${actionInWords(row.action)}</b>` },
    { name: 'Who', show: (row) => row.key_name || 'platform' },
    { name: 'To what', show: (row) => html`<${Target} target=${row.target} />` },
    { name: 'Before and after', show: (row) => html`<${Change} row=${row} />` },
  ];
  return html`<${Listed} list=${list} columns=${columns} keyOf=${(row) => row.id} label="Record"
    empty=${['Nothing is recorded', 'Each action of an operator will have a line here.']} />`;
}

/** What the api's names of things are for people. */
const THINGS = {
  template: 'campaign', templates: 'campaign', coupons: 'coupon', users: 'user', jobs: 'grants', job: 'grants', findings: 'finding', view: 'list',
  'api-keys': 'key', merchants: 'merchant', redemptions: 'order', redemption: 'order',
};

/** `template.publish` is “Publish campaign”. */
export function actionInWords(action) {
  const [thing, verb] = action.split('.');
  const text = `${verb || ''} ${THINGS[thing] || thing}`.trim().replaceAll('_', ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function Target({ target }) {
  const [kind, ...rest] = target.split('/');
  const id = rest.join('/');
  const text = id ? `${THINGS[kind] || kind} ${id}` : target;
  const place = { templates: ['campaign', id], coupons: ['customer', 'coupon', id], users: ['customer', 'user', id], jobs: ['grants', id],
    findings: ['findings', id], redemptions: ['customer', 'order', id] }[kind];
  return place && id ? html`<a href=${to(place)}>${text}</a>` : text;
}

function Change({ row }) {
  const [open, set] = useState(false);
  if (row.after === null) return html`<span class="not-known">its end was not recorded</span>`;
  const reason = row.after.reason || row.after.paused_at_gate === true ? reasonOf(row.after) : '';
  return html`<div>${reason && html`<span>${reason} </span>`}
    <button class="link" aria-expanded=${open} onClick=${() => set(!open)}>${open ? 'Less' : 'Show'}</button>
    ${open && html`<${Diff} before=${row.before} after=${row.after} names=${['before', 'after']} />`}</div>`;
}

function reasonOf(after) {
  return [after.reason, after.paused_at_gate ? 'paused at the gate' : ''].filter(Boolean).join(', ');
}
