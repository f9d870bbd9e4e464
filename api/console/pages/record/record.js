// The record of what operators did: by object, by key, by time.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useLoad } from '../../core/load.js';
import { refine } from '../../core/router.js';
import { can } from '../../core/session.js';
import { readLocal, toLocal, zoneName } from '../../core/times.js';
import { Choice, Field } from '../../parts/field.js';
import { RecordList } from './record_list.js';

export function RecordPage({ query }) {
  const { target, key_id: keyId, from, to } = query;
  const keys = useLoad(can('admin') ? pathOf('list_api_keys') : null);
  const options = [['', 'Everybody'], ['platform', 'platform'], ...((keys.data && keys.data.items) || []).map((key) => [key.id, key.name])];
  const at = (name) => (event) => refine({ [name]: event.target.value ? readLocal(event.target.value).instant : '' });
  return html`<div class="page">
    <header class="page-head"><h1>Record</h1></header>
    <form class="filters labelled" onSubmit=${(event) => event.preventDefault()}>
      <${Field} id="target" label="Of what" help="As the api names it: templates/7, coupons/7, users/7"><input id="target" value=${target || ''} placeholder="templates/7" onChange=${(event) => refine({ target: event.target.value.trim() })} /><//>
      ${can('admin') && html`<${Field} id="key" label="By whom"><${Choice} id="key" value=${keyId || ''} change=${(id) => refine({ key_id: id })} options=${options} /><//>`}
      <${Field} id="from" label="From"><input id="from" type="datetime-local" value=${toLocal(from)} onChange=${at('from')} /><//>
      <${Field} id="to" label="Before"><input id="to" type="datetime-local" value=${toLocal(to)} onChange=${at('to')} /><//>
    </form>
    <p class="help">Times are those of ${zoneName}.</p>
    <section class="panel"><${RecordList} query=${{ target, key_id: keyId, from, to }} /></section>
  </div>`;
}
