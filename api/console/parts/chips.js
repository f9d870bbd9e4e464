// Words in a small frame: states of sales, coupons, gates, hops. A mark beside the colour, for those who see none.

import { html } from '../core/view.js';
import { atGate } from '../core/at_gate.js';

const KINDS = {
  published: ['Published', 'good'], open: ['Open', 'good'], upcoming: ['Upcoming', 'info'], paused: ['Paused', 'warn'],
  paused_at_gate: ['Paused at the gate', 'warn'],
  draft: ['Draft', 'plain'], ended: ['Ended', 'plain'], closed: ['Closed', 'plain'], sold_out: ['Sold out', 'info'],
  unused: ['Unused', 'good'], used: ['Used', 'info'], expired: ['Expired', 'plain'], cancelled: ['Cancelled', 'plain'],
  held: ['Held', 'warn'], lapsed: ['Lapsed', 'plain'], landed: ['Landed', 'good'], rejected: ['Rejected', 'bad'],
  given_up: ['Given up', 'plain'], processing: ['On its way', 'info'], lost: ['Lost', 'bad'],
  running: ['Running', 'info'], cancelling: ['Being cancelled', 'warn'], repairing: ['Being repaired', 'info'],
  repaired: ['Repaired', 'good'], accepted: ['Accepted', 'plain'], overtaken: ['Overtaken', 'plain'], done: ['Done', 'good'], finished: ['Finished', 'good'], waiting: ['Waiting', 'warn'],
  ready: ['Ready', 'good'], degraded: ['Degraded', 'warn'], 'not ready': ['Not ready', 'bad'], 'no answer': ['No answer', 'bad'],
  works: ['works', 'good'], late: ['late', 'warn'], stopped: ['stopped', 'bad'], unknown: ['not known', 'hatched'],
  well: ['Well', 'good'], down: ['Down', 'bad'], granted: ['Granted', 'good'], pending: ['Pending', 'plain'],
};
const MARKS = { good: '●', info: '◆', warn: '▲', bad: '■', plain: '○', hatched: '?' };

/** `invalid_user_id` is “Invalid user id”. */
function inWords(word) {
  const text = String(word).replaceAll('_', ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function Chip({ word, text, kind }) {
  const [known, knownKind] = KINDS[word] || [inWords(word ?? 'not known'), 'plain'];
  const shown = kind || knownKind;
  return html`<span class="chip ${shown}"><span aria-hidden="true">${MARKS[shown]}</span>${text || known}</span>`;
}

/** The state of a sale: what its window and stock make of its template's state. */
export function saleState(sale, now) {
  if (sale.state !== 'published') return sale.state;
  if (atGate.get().has(sale.id)) return 'paused_at_gate';
  if (now < Date.parse(sale.claim_starts_at)) return 'upcoming';
  if (now >= Date.parse(sale.claim_ends_at)) return 'closed';
  return sale.left === 0 ? 'sold_out' : 'open';
}

/** Before the window a gate need not be loaded yet. */
export function GateChip({ loaded, state }) {
  if (loaded === false && state === 'upcoming') return html`<${Chip} text="gate not loaded yet" kind="plain" />`;
  if (loaded === null || loaded === undefined) return html`<${Chip} word="unknown" text="gate not known" />`;
  return loaded ? html`<${Chip} text="gate loaded" kind="good" />` : html`<${Chip} text="gate not loaded" kind="warn" />`;
}
