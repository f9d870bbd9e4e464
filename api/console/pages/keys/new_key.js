// A new key, with the scopes that it shall have.

import { html, useState } from '../../core/view.js';
import { callOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { isPlatform } from '../../core/session.js';
import { readLocal, zoneName } from '../../core/times.js';
import { Confirm } from '../../parts/confirm.js';
import { Field, Text, Tick } from '../../parts/field.js';

const SCOPES = [
  ['read', 'Look at campaigns, customers and the record'], ['operate', 'That, and change campaigns, stock and coupons'],
  ['admin', 'That, and manage keys'], ['redeem', 'A checkout: redeem coupons and confirm payments'],
  ['emergency', 'On call: see and pause every merchant’s sales'],
];

export function NewKey({ merchant, done, close }) {
  const [name, type] = useState('');
  const [scopes, choose] = useState(['read']);
  const [until, set] = useState('');
  const offered = SCOPES.filter(([scope]) => scope !== 'emergency' || (isPlatform() && !merchant));
  const flip = (scope) => (has) => choose(has ? [...scopes, scope] : scopes.filter((one) => one !== scope));
  const run = async () => {
    if (!name.trim()) throw new Error('Give it a name: who or what uses it.');
    if (scopes.length === 0) throw new Error('Choose what it may do.');
    const expires = until ? readLocal(until) : null;
    if (expires && expires.wrong) throw new Error(expires.wrong);
    const body = { name: name.trim(), scopes, ...(expires ? { expires_at: expires.instant } : {}), ...(merchant ? { merchant_id: merchant } : {}) };
    done(await act({ ...callOf('create_api_key'), body, label: `Make the key “${name.trim()}”` }));
  };
  const extra = html`
    <${Field} id="key-name" label="Name" help="Who or what uses it: the record names it."><${Text} id="key-name" value=${name} change=${type} maxlength="100" /><//>
    <fieldset><legend>It may</legend>${offered.map(([scope, text]) => html`<${Tick} key=${scope} id="scope-${scope}" checked=${scopes.includes(scope)} change=${flip(scope)} label=${scope} help=${text} />`)}</fieldset>
    <${Field} id="key-until" label="Expires, ${zoneName}" help="Empty: never."><input id="key-until" type="datetime-local" value=${until} onInput=${(event) => set(event.target.value)} /><//>`;
  return html`<${Confirm} title="New key" does="Make it" run=${run} close=${close} extra=${extra} />`;
}
