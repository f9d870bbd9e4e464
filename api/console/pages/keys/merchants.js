// Merchants: for the platform's own key.

import { html, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useList } from '../../core/load.js';
import { to } from '../../core/router.js';
import { time } from '../../core/times.js';
import { Confirm } from '../../parts/confirm.js';
import { Field, Text } from '../../parts/field.js';
import { Listed } from '../../parts/rows.js';
import { say } from '../../parts/toasts.js';

const COLUMNS = [
  { name: 'Merchant', show: (row) => html`<b>${row.name}</b> <span class="small muted">${row.id}</span>` },
  { name: 'Since', show: (row) => time(row.created_at, 'minute') },
  { name: 'Keys', kind: 'number', show: (row) => html`<a href=${to(['keys'], { merchant: row.id })}>Its keys</a>` },
];

export function Merchants() {
  const [open, setOpen] = useState(false);
  const list = useList(pathOf('list_merchants'), { limit: 20 });
  return html`<section class="panel" aria-label="Merchants">
    <header class="panel-head"><h2>Merchants</h2><button onClick=${() => setOpen(true)}>New merchant…</button></header>
    <${Listed} list=${list} columns=${COLUMNS} keyOf=${(row) => row.id} label="Merchants" empty=${['There is one merchant: the platform', '']} />
    ${open && html`<${NewMerchant} again=${list.again} close=${() => setOpen(false)} />`}
  </section>`;
}

function NewMerchant({ again, close }) {
  const [name, type] = useState('');
  const run = async () => {
    if (!name.trim()) throw new Error('Give it a name.');
    await act({ ...callOf('create_merchant'), body: { name: name.trim() }, label: `Make the merchant “${name.trim()}”` });
    say({ text: `The merchant “${name.trim()}” is made. Give it a key.` });
    again();
  };
  const extra = html`<${Field} id="merchant-name" label="Name"><${Text} id="merchant-name" value=${name} change=${type} maxlength="100" /><//>`;
  return html`<${Confirm} title="New merchant" does="Make it" run=${run} close=${close} extra=${extra} />`;
}
