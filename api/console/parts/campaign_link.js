// A campaign by its name, and money of it, where an answer has numbers only.

import { html } from '../core/view.js';
import { pathOf } from '../calls/calls.js';
import { useLoad } from '../core/load.js';
import { money } from '../core/money.js';
import { count } from '../core/numbers.js';
import { to } from '../core/router.js';
import { time } from '../core/times.js';

/** Until the name is read, and where it cannot be, the number is shown. */
export function CampaignLink({ id }) {
  const { data } = useLoad(pathOf('get_template', { id }));
  return html`<a href=${to(['campaign', id])}>${data ? data.name : id}</a>`;
}

/** An amount in minor units of a campaign's currency. */
export function CampaignMoney({ id, minor }) {
  const { data } = useLoad(pathOf('get_template', { id }));
  return html`<span>${data ? money(minor, data.discount.currency) : `${count(minor)} in minor units`}</span>`;
}

/** A campaign in a list to choose from: several may have one name, so it says when it begins. */
export function campaignOption(template) {
  return [template.id, `${template.name} · ${time(template.claim_starts_at, 'minute')}`];
}
