// Health: what works for users, why the rest does not, and every process on the way of a claim.

import { html } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { useLoad } from '../../core/load.js';
import { isPlatform } from '../../core/session.js';
import { ago, time } from '../../core/times.js';
import { Abilities } from '../../parts/sentence.js';
import { Read } from '../../parts/problem.js';
import { Runbook, withRunbook } from '../../parts/runbook.js';
import { Expiry } from './expiry.js';
import { Picture } from './picture.js';
import { Processes } from './processes.js';

const EVERY_MS = 2_000;

export function Health() {
  const health = useLoad(pathOf('get_health'), EVERY_MS);
  return html`<div class="page">
    <header class="page-head"><h1>Health</h1>${health.data && html`<span class="muted small">as of ${time(health.data.now, 'clock')}</span>`}</header>
    <${Read} of=${health}>${(data) => html`<${Body} health=${data} />`}<//>
    ${isPlatform() && html`<${Expiry} />`}
  </div>`;
}

function Body({ health }) {
  const { impact } = health;
  return html`
    <section class="panel" aria-label="What works">
      <${Abilities} impact=${impact} />
      ${impact.cause && html`<${Cause} impact=${impact} now=${health.now} />`}
      ${health.gates_not_loaded === null && html`<p class="small"><span class="not-known">Which gates are loaded is not known.</span></p>`}
      ${(health.gates_not_loaded || []).map((gate) => html`<p key=${gate.template_id} class="note warn">The gate of${' '}
        <a href="#/campaign/${gate.template_id}">campaign ${gate.template_id}</a>, which opens ${time(gate.opens_at, 'minute')}, is not loaded.</p>`)}
    </section>
    <${Picture} health=${health} />
    <${Processes} health=${health} />`;
}

function Cause({ impact, now }) {
  const { text, section } = withRunbook(impact.action);
  return html`<dl class="terms single">
    <div><dt>Cause</dt><dd>${impact.cause}${impact.since && html`, since ${time(impact.since, 'clock')} (${ago(Date.parse(now) - Date.parse(impact.since))})`}</dd></div>
    ${impact.action && html`<div><dt>Do</dt><dd>${text} <${Runbook} section=${section} /></dd></div>`}
    ${impact.also.length > 0 && html`<div><dt>Also</dt><dd><ul>${impact.also.map((cause) => html`<li key=${cause}>${cause}</li>`)}</ul></dd></div>`}
  </dl>`;
}
