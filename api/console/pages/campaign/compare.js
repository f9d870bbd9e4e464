// Two sales beside each other.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useList, useLoad } from '../../core/load.js';
import { refine } from '../../core/router.js';
import { campaignOption } from '../../parts/campaign_link.js';
import { Choice, Field } from '../../parts/field.js';
import { Read } from '../../parts/problem.js';
import { Table } from '../../parts/rows.js';
import { figuresOf } from './report.js';

export function Compare({ sale, other }) {
  const list = useList(pathOf('list_templates'), { limit: 100 });
  const options = [['', 'Choose a campaign'], ...list.rows.filter((row) => row.id !== sale.id && row.state !== 'draft').map(campaignOption)];
  return html`<section class="panel no-print" aria-label="Comparison">
    <header class="panel-head"><h2>Beside another sale</h2></header>
    <${Field} id="with" label="Compare with"><${Choice} id="with" value=${other || ''} change=${(id) => refine({ with: id })} options=${options} /><//>
    ${other && html`<${Both} sale=${sale} other=${other} />`}
  </section>`;
}

function Both({ sale, other }) {
  const mine = useLoad(pathOf('get_report', { id: sale.id }));
  const theirs = useLoad(pathOf('get_report', { id: other }));
  return html`<${Read} of=${mine}>${(a) => html`<${Read} of=${theirs}>${(b) => html`<${Beside} a=${a} b=${b} />`}<//>`}<//>`;
}

function Beside({ a, b }) {
  const right = new Map(figuresOf(b).map(([name, , text]) => [name, text]));
  const rows = figuresOf(a).map(([name, , text]) => ({ name, left: text, right: right.get(name) }));
  const show = (text) => text ?? html`<span class="not-known">not known</span>`;
  const columns = [
    { name: 'Figure', show: (row) => row.name }, { name: a.name, kind: 'number', show: (row) => show(row.left) },
    { name: `${b.name} `, kind: 'number', show: (row) => show(row.right) },
  ];
  return html`<${Table} columns=${columns} rows=${rows} keyOf=${(row) => row.name} label="Two sales" />`;
}
