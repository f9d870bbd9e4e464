// Two operators edit one campaign: what was opened, what it is now, and what was to be changed, beside each other.

import { html } from '../../core/view.js';
import { Dialog } from '../../parts/dialog.js';
import { currencyOf, differences, fields, label, shown } from '../record/diff.js';

export function Conflict({ before, conflict, settle }) {
  const opened = fields(before);
  const theirs = fields(conflict.theirs);
  const mine = fields({ ...conflict.theirs, ...conflict.change });
  const currency = currencyOf(conflict.theirs, before);
  const names = new Set([...differences(before, conflict.theirs), ...differences(before, { ...before, ...conflict.change })].map((one) => one.name));
  return html`<${Dialog} title="Somebody else has changed it meanwhile" close=${settle.close} wide>
    <p>It is of version ${conflict.template.version} now. Nothing of yours is saved yet.</p>
    <div class="table-place"><table class="diff">
      <thead><tr><th scope="col">Field</th><th scope="col">You opened</th><th scope="col">It is now</th><th scope="col">With your changes</th></tr></thead>
      <tbody>${[...names].map((name) => html`<tr key=${name} class=${theirs[name] !== opened[name] && mine[name] !== theirs[name] ? 'both' : ''}>
        <th scope="row">${label(name)}</th>
        ${[opened, theirs, mine].map((one, at) => html`<td key=${at} class=${at > 0 ? 'is' : ''}>${shown(name, one[name], currency)}</td>`)}</tr>`)}</tbody>
    </table></div>
    <footer>
      <button onClick=${settle.close}>Back to the form</button>
      <button onClick=${settle.theirs}>Drop my changes</button>
      <button class="main" onClick=${settle.mine}>Save mine over it</button>
    </footer>
  <//>`;
}
