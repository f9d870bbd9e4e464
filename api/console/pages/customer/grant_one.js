// One coupon more for one user: a job of one row.

import { html, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useList } from '../../core/load.js';
import { go } from '../../core/router.js';
import { campaignOption } from '../../parts/campaign_link.js';
import { Confirm } from '../../parts/confirm.js';
import { Choice, Field, Tick } from '../../parts/field.js';

export function GrantOne({ user, close }) {
  const list = useList(pathOf('list_templates'), { state: 'published', limit: 100 });
  const [template, choose] = useState('');
  const [fromStock, set] = useState(true);
  const options = [['', 'Choose a campaign'], ...list.rows.map(campaignOption)];
  const chosen = list.rows.find((row) => row.id === template);
  const run = async ({ reason }) => {
    if (!chosen) throw new Error('Choose a campaign.');
    const body = { user_ids: [user], reason, from_stock: fromStock, ...(chosen.hold_ms > 0 ? { confirmed: true } : {}) };
    const answer = await act({ ...callOf('grant_coupons', { id: template }), body, label: `Grant “${chosen.name}” to user ${user}` });
    if (answer) go(['grants', answer.body.id]);
  };
  const extra = html`<${Field} id="template" label="Campaign"><${Choice} id="template" value=${template} change=${choose} options=${options} /><//>
    <${Tick} id="from-stock" checked=${fromStock} change=${set} label="Take it from the stock" help="Otherwise one is added to the total." />`;
  return html`<${Confirm} title="Grant a coupon to user ${user}" does="Grant" reason run=${run} close=${close} extra=${extra}>
    <p>It is claimed for the user, under the campaign's window and limit.</p>
  <//>`;
}
