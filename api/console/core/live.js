// The live stream: one sample a second of what is well and of every open sale.

import { store, useStore, useTicks } from './store.js';
import { pathOf } from '../calls/calls.js';
import { ask } from './api.js';
import { isKnown } from './numbers.js';
import { can, session } from './session.js';

/** Older figures are shown as old, in ms. */
export const STALE_MS = 3_000;

/** Pause before the stream is opened again after the browser has given it up, in ms. */
const AGAIN_MS = 2_000;

/** Samples that are kept, for the lines of the last minutes. */
const HISTORY = 300;

/** `sample` is the last one, `at` when it came by the page's monotonic clock. Null: none yet. */
const state = store({ sample: null, at: null, connected: false });
const history = new Map();
let stream = null;
let timer = null;

export const live = { get: state.get, follow: state.follow };

export function startLive() {
  stopLive();
  stream = new EventSource(`.${pathOf('watch_sales')}`);
  // Its events have no name, and the data of each is a sample.
  stream.onmessage = take;
  stream.onerror = () => {
    state.set((old) => ({ ...old, connected: false }));
    // A browser tries again by itself, unless the answer was a refusal. A stream does not tell which; a call does, and the
    // session ends if the key is not accepted any more.
    if (stream && stream.readyState === EventSource.CLOSED) ask('whoami').catch(() => null).then(again);
  };
}

export function stopLive() {
  clearTimeout(timer);
  if (stream) stream.close();
  stream = null;
}

// A browser has six connections to a host, and a stream keeps one: a tab that nobody sees gives it back.
document.addEventListener('visibilitychange', () => {
  const isIn = session.get().identity && !session.get().locked;
  if (document.hidden) stopLive();
  else if (isIn && can('read')) startLive();
});

function again() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (session.get().identity && !session.get().locked) startLive();
  }, AGAIN_MS);
}

function take(event) {
  let sample;
  try {
    sample = JSON.parse(event.data);
  } catch {
    return;
  }
  const templates = sample.templates && sample.templates.map(shaped).map((sale) => paced(sale, sample.now));
  state.set({ sample: { ...sample, templates }, at: performance.now(), connected: true });
}

/**
 * A sale as the pages have it: its state is the template's own, since what the window makes of that changes between two samples
 * too, and what the api that answers counted in the last second has names. Null: not known.
 * @param {import('../calls/answers.js').LiveTemplate} sale
 */
export function shaped({ last_second: second, ...sale }) {
  return {
    ...sale, state: sale.state === 'paused' ? 'paused' : 'published',
    claims_here: second ? second.claims : null, refusals: second ? second.refused : null,
  };
}

/**
 * Adds what all apis together gave out in the last second: what left the stock since the sample before. Where more came back
 * than left, as after a top-up, it is at least what this api gave out.
 */
function paced(sale, now) {
  const rows = history.get(sale.id) || [];
  const at = Date.parse(now) / 1000;
  const before = rows[rows.length - 1];
  const isNext = before !== undefined && at > before.at && at - before.at < STALE_MS / 1000;
  const gone = isNext && isKnown(before.left) && isKnown(sale.left) ? (before.left - sale.left) / (at - before.at) : null;
  const known = [gone, sale.claims_here].filter(isKnown);
  const given = known.length > 0 ? Math.max(0, ...known) : null;
  rows.push({ at, rate: given, left: sale.left ?? null });
  if (rows.length > HISTORY) rows.shift();
  history.set(sale.id, rows);
  return { ...sale, given_per_second: given };
}

/** Returns the samples of a sale since the page was opened, at most five minutes. */
export function historyOf(id) {
  return history.get(id) || [];
}

/** The span over which it is judged how fast a sale sells, in seconds: longer than a gap between two landings. */
const PACE_SECONDS = 10;

/** Coupons a second that left the stock lately, at all apis; null if that is not known, as after a top-up. */
export function paceOf(id) {
  const rows = historyOf(id).filter((row) => row.left !== null);
  const last = rows[rows.length - 1];
  const first = last && rows.find((row) => row.at >= last.at - PACE_SECONDS);
  if (!last || last.at - first.at < 1 || last.left > first.left) return null;
  return (first.left - last.left) / (last.at - first.at);
}

/** Follows the stream: the last sample, its age in ms, whether it is old, and the platform's time now. */
export function useLive() {
  const { sample, at, connected } = useStore(live);
  const tick = useTicks(500);
  const age = at === null ? null : Math.max(0, tick - at);
  const isStale = age === null || age > STALE_MS;
  const now = sample ? Date.parse(sample.now) + (age || 0) : Date.now();
  return { sample, age, isStale, connected, now };
}
