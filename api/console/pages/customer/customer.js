// One customer: found by user, coupon, claim or order. Each has an address that can be sent to a colleague.

import { html } from '../../core/view.js';
import { useLoad } from '../../core/load.js';
import { withQuery } from '../../core/api.js';
import { go, to } from '../../core/router.js';
import { Chip } from '../../parts/chips.js';
import { Empty, Read } from '../../parts/problem.js';
import { Claim } from './claim.js';
import { Coupon } from './coupon.js';
import { Order } from './order.js';
import { User } from './user.js';

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
    <label class="hidden" for="find">A user, coupon, claim or order</label>
    <input id="find" name="find" type="search" value=${text} placeholder="A user's, coupon's or claim's number, or an order" autocomplete="off" />
    <button class="main">Find</button>
  </form>`;
}

function Results({ q }) {
  const found = useLoad(q ? withQuery('/v1/search', { q }) : null);
  if (!q) return html`<${Empty} title="Who needs help?">Type the number of a user, a coupon or a claim, or the name of an order.<//>`;
  return html`<${Read} of=${found}>${(data) => html`<${Found} q=${q} hits=${hitsOf(data)} />`}<//>`;
}

/** The api names what it found by kind; each is a line here. */
function hitsOf(data) {
  return data.items || data.data || data.results || [];
}

function Found({ q, hits }) {
  if (hits.length === 0) return html`<${Empty} title="Nothing is called “${q}”">Look whether a digit is missing. Other merchants' customers are not found here.<//>`;
  return html`<ul class="hits">${hits.map((hit) => html`<li key=${hit.kind + hit.id}>
    <a href=${to(['customer', hit.kind, hit.id], { template: hit.template_id })}><span class="hit-kind">${hit.kind}</span> <b>${hit.id}</b></a>
    ${hit.status && html`<${Chip} word=${hit.status} />`}
    <span class="muted small">${hit.text || hit.template_name || ''}</span>
  </li>`)}</ul>`;
}
