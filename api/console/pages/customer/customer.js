// One customer: found by user, coupon, claim or order. Each has an address that can be sent to a colleague.

import { html, useEffect } from '../../core/view.js';
import { useLoad } from '../../core/load.js';
import { pathOf } from '../../calls/calls.js';
import { go, to } from '../../core/router.js';
import { Empty, Read } from '../../parts/problem.js';
import { Claim } from './claim.js';
import { Coupon } from './coupon.js';
import { Order } from './order.js';
import { User } from './user.js';

/** Longest text that the api looks for. */
const TEXT_MAX = 200;

const KINDS = { user: User, coupon: Coupon, claim: Claim, order: Order };

export function Customer({ parts, query }) {
  const [, kind, id] = parts;
  const Found = KINDS[kind];
  return html`<div class="page">
    <header class="page-head"><h1>${title(kind, id)}</h1></header>
    <${Box} text=${query.q || id || ''} />
    ${Found && id ? html`<${Found} id=${id} query=${query} />` : html`<${Results} q=${query.q} />`}
  </div>`;
}

function title(kind, id) {
  return id && KINDS[kind] ? `${kind[0].toUpperCase()}${kind.slice(1)} ${id}` : 'Customer';
}

function Box({ text }) {
  const submit = (event) => {
    event.preventDefault();
    const q = new FormData(event.target).get('find').trim();
    if (q) go(['customer'], { q });
  };
  return html`<form class="find-box" role="search" aria-label="Customers" onSubmit=${submit}>
    <label class="hidden" for="find">A user, coupon, claim, order or campaign</label>
    <input id="find" name="find" type="search" value=${text} maxlength=${TEXT_MAX} placeholder="A number, an order, or a campaign's name" autocomplete="off" />
    <button class="main">Find</button>
  </form>`;
}

function Results({ q }) {
  const found = useLoad(q ? pathOf('search', {}, { q }) : null);
  if (!q) return html`<${Empty} title="Who needs help?">Type the number of a user, a coupon or a claim, an order, or part of a campaign's name.<//>`;
  return html`<${Read} of=${found}>${(data) => html`<${Found} q=${q} found=${data} />`}<//>`;
}

/** The page of a hit. A claim is found by its template as long as it is not decided. */
function placeOf(hit) {
  if (hit.kind === 'template') return to(['campaign', hit.id]);
  return to(['customer', hit.kind, hit.id], hit.kind === 'claim' ? { template: hit.template_id } : {});
}

function Found({ q, found }) {
  const hits = found.items;
  // The only one is opened, in the place of the search: the way back leads to what was before it.
  const only = hits.length === 1 && !found.more ? placeOf(hits[0]) : null;
  useEffect(() => {
    if (only) location.replace(only);
  }, [only]);
  if (hits.length === 0) return html`<${Empty} title="Nothing is called “${q}”">Look whether a digit is missing. Other merchants' customers are not found here.<//>`;
  return html`<ul class="hits">${hits.map((hit) => html`<li key=${hit.kind + hit.id}>
    <a href=${placeOf(hit)}><span class="hit-kind">${hit.kind === 'template' ? 'campaign' : hit.kind}</span> <b>${hit.name || hit.id}</b></a>
    <span class="muted small">${hit.name ? hit.id : hit.user_id ? `of user ${hit.user_id}` : ''}</span>
  </li>`)}</ul>${found.more && html`<p class="help">More campaigns may have this in their name: type more of it.</p>`}`;
}
