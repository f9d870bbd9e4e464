// One finding: what should be there, what is there, and what can be done about it.

import { html, useState } from '../../core/view.js';
import { callOf, pathOf } from '../../calls/calls.js';
import { act } from '../../core/actions.js';
import { useLoad } from '../../core/load.js';
import { count } from '../../core/numbers.js';
import { to } from '../../core/router.js';
import { can } from '../../core/session.js';
import { time } from '../../core/times.js';
import { CampaignLink, CampaignMoney } from '../../parts/campaign_link.js';
import { Chip } from '../../parts/chips.js';
import { Confirm } from '../../parts/confirm.js';
import { Read } from '../../parts/problem.js';
import { say } from '../../parts/toasts.js';
import { RecordList } from '../record/record_list.js';
import { KINDS } from './words.js';

/**
 * What can be done about an open finding: the button, and the dialog in front of it. A repair is one more line here, whose dialog
 * first asks for a dry run, shows what that would do, and then sends the digest of what was shown.
 */
const DECISIONS = [
  { name: 'accept', text: 'Accept…', fits: (finding) => finding.state === 'open', Dialog: Accept },
];

export function Finding({ id }) {
  const finding = useLoad(pathOf('get_finding', { id }));
  return html`<div class="page"><header class="page-head"><h1>Finding</h1><a href="#/findings">All findings</a></header>
    <${Read} of=${finding}>${(data) => html`<${Body} finding=${data} again=${finding.again} />`}<//></div>`;
}

function Body({ finding, again }) {
  const [open, setOpen] = useState(null);
  const decisions = can('operate') ? DECISIONS.filter(({ fits }) => fits(finding)) : [];
  const chosen = DECISIONS.find(({ name }) => name === open);
  return html`
    <p class="subtitle">${KINDS[finding.kind] || finding.kind} <${Chip} word=${finding.state} kind=${finding.state === 'open' ? 'warn' : undefined} /></p>
    ${decisions.length > 0 && html`<div class="actions">${decisions.map(({ name, text }) => html`<button key=${name} onClick=${() => setOpen(name)}>${text}</button>`)}</div>`}
    <section class="panel"><p class="note">${finding.line}</p>
      <dl class="terms">${rowsOf(finding).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></section>
    <section class="panel" aria-label="Record"><header class="panel-head"><h2>What operators did</h2></header>
      <${RecordList} key=${finding.state} query=${{ target: `findings/${finding.id}` }} /></section>
    ${chosen && html`<${chosen.Dialog} finding=${finding} close=${() => setOpen(null)} again=${again} />`}`;
}

function rowsOf(finding) {
  const { template_id: template, user_id: user, claim_id: claim } = finding;
  const rows = [
    ['Should be', finding.expected], ['Is', finding.seen],
    ['Coupons', finding.coupons > 0 && count(finding.coupons)],
    ['Worth at most', finding.money_minor !== undefined && (template ? html`<${CampaignMoney} id=${template} minor=${finding.money_minor} />` : `${count(finding.money_minor)}, in minor units`)],
    ['Campaign', template && html`<${CampaignLink} id=${template} />`],
    ['User', user && html`<a href=${to(['customer', 'user', user])}>${user}</a>`],
    ['Claim', claim && html`<a href=${to(['customer', 'claim', claim], { template })}>${claim}</a>`],
    ['Epoch', finding.epoch], ['Version', finding.version], ['Merchant', finding.merchant_id],
    ['Seen', `${time(finding.first_seen)} to ${time(finding.last_seen)}, at ${count(finding.looks)} looks`],
    ['Decided', finding.decided_at && `${time(finding.decided_at)} by ${finding.decided_by || 'nobody named'}`], ['Why', finding.reason],
  ];
  return rows.filter(([, value]) => value !== undefined && value !== false && value !== '' && value !== null);
}

function Accept({ finding, close, again }) {
  const run = async ({ reason }) => {
    await act({ ...callOf('accept_finding', { id: finding.id }), body: { reason }, label: `Accept finding ${finding.id}`, keyless: true });
    say({ text: 'The finding is accepted. It is open again if it comes to be about another number of coupons.' });
    again();
  };
  return html`<${Confirm} title="Accept the finding" does="Accept" reason run=${run} close=${close}>
    <p>Nothing is repaired: it is left as it is, and is not open any more.</p><//>`;
}
