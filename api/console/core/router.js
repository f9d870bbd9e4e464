// Pages by the part of the address behind `#`: `#/campaign/7?tab=report`. Each can be sent to a colleague.

import { store, useStore } from './store.js';

const state = store(parse());

addEventListener('hashchange', () => state.set(parse()));

/** Splits an address into its parts and its query. */
function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map(decoded);
  return { parts, query: Object.fromEntries(new URLSearchParams(query || '')) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Makes an address. */
export function to(parts, query = {}) {
  const path = [].concat(parts).map((part) => encodeURIComponent(part)).join('/');
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = new URLSearchParams(pairs).toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

export function go(parts, query) {
  location.hash = to(parts, query);
}

/** Changes the query of the present page, without a step in the history. */
export function refine(query) {
  const { parts, query: present } = state.get();
  history.replaceState(null, '', to(parts, { ...present, ...query }));
  state.set(parse());
}

export function useRoute() {
  return useStore(state);
}
