// Keys of people and systems. A new key is shown once.

import { html, useState } from '../../core/view.js';
import { act } from '../../core/actions.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { useLoad } from '../../core/load.js';
import { can, isPlatform, session } from '../../core/session.js';
import { time } from '../../core/times.js';
import { Chip } from '../../parts/chips.js';
import { Confirm } from '../../parts/confirm.js';
import { Empty, Read } from '../../parts/problem.js';
import { Table } from '../../parts/rows.js';
import { say } from '../../parts/toasts.js';
import { Merchants } from './merchants.js';
import { NewKey } from './new_key.js';
import { Secret } from './secret.js';

export function Keys({ query }) {
  if (!can('admin')) return html`<${Empty} title="This key may not manage keys">Ask who has the scope admin.<//>`;
  return html`<div class="page">
    <${KeyList} merchant=${query.merchant} />
    ${isPlatform() && html`<${Merchants} />`}
  </div>`;
}

function KeyList({ merchant }) {
  const keys = useLoad(pathOf('list_api_keys', {}, { merchant_id: merchant }));
  const [open, setOpen] = useState(null);
  const [made, setMade] = useState(null);
  const close = () => setOpen(null);
  const shown = (answer) => {
    close();
    if (answer) setMade(answer.body);
    keys.again();
  };
  const columns = [
    { name: 'Key', show: (row) => html`<b>${row.name}</b> <span class="small muted">${row.id}</span>` },
    { name: 'May', show: (row) => row.scopes.join(', ') },
    { name: 'State', show: (row) => html`<${State} row=${row} />` },
    { name: 'Last used', show: (row) => (row.last_used_at ? time(row.last_used_at, 'minute') : 'not seen yet') },
    { name: 'Made', show: (row) => time(row.created_at, 'minute') },
    { name: 'Actions', kind: 'number', show: (row) => isLive(row) && html`<span class="buttons">
        <button onClick=${() => setOpen({ rotate: row })}>Replace…</button>
        <button class="quiet-danger" onClick=${() => setOpen({ revoke: row })}>Revoke…</button></span>` },
  ];
  return html`<header class="page-head"><h1>Keys</h1>${merchant && html`<span class="muted">of merchant ${merchant}</span>`}
      <button class="main" onClick=${() => setOpen({ create: true })}>New key…</button></header>
    ${made && html`<${Secret} made=${made} close=${() => setMade(null)} />`}
    <section class="panel"><${Read} of=${keys}>${({ items }) => (items.length
    ? html`<${Table} columns=${columns} rows=${items} keyOf=${(row) => row.id} label="Keys" />`
    : html`<${Empty} title="There is no key yet">Make one for each person and each system.<//>`)}<//></section>
    ${open && open.create && html`<${NewKey} merchant=${merchant} done=${shown} close=${close} />`}
    ${open && open.revoke && html`<${Revoke} row=${open.revoke} done=${shown} close=${close} />`}
    ${open && open.rotate && html`<${Rotate} row=${open.rotate} done=${shown} close=${close} />`}`;
}

function isLive(row) {
  const now = Date.now();
  return (!row.revoked_at || Date.parse(row.revoked_at) > now) && (!row.expires_at || Date.parse(row.expires_at) > now);
}

function State({ row }) {
  if (row.revoked_at && Date.parse(row.revoked_at) <= Date.now()) return html`<${Chip} text="Revoked" kind="plain" />`;
  if (row.revoked_at) return html`<${Chip} text="Being replaced" kind="warn" /> <span class="small">until ${time(row.revoked_at, 'minute')}</span>`;
  if (!isLive(row)) return html`<${Chip} text="Expired" kind="plain" />`;
  return html`<${Chip} text="Accepted" kind="good" /> ${row.expires_at && html`<span class="small">until ${time(row.expires_at, 'minute')}</span>`}`;
}

function Revoke({ row, done, close }) {
  const isMine = session.get().identity.key_id === row.id;
  const run = async () => {
    await act({ ...callOf('revoke_api_key', { id: row.id }), label: `Revoke the key “${row.name}”`, keyless: true });
    say({ text: `The key “${row.name}” is revoked, everywhere within two seconds.` });
    done(null);
  };
  return html`<${Confirm} title="Revoke the key “${row.name}”" does="Revoke for good" danger name=${row.name} run=${run} close=${close}>
    ${isMine && html`<p class="note bad">It is the key that you are signed in with: this page ends with it.</p>`}
    <p>Whatever uses it is refused within two seconds.</p><//>`;
}

function Rotate({ row, done, close }) {
  const run = async () => done(await act({ ...callOf('rotate_api_key', { id: row.id }), label: `Replace the key “${row.name}”` }));
  return html`<${Confirm} title="Replace the key “${row.name}”" does="Make the new key" run=${run} close=${close}>
    <p>The new key has the same name and scopes. The old one is accepted for one more day.</p><//>`;
}
