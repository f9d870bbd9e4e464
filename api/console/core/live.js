// The live stream: one sample a second of what is well and of every open sale.

import { store, useStore, useTicks } from './store.js';
import { call } from './api.js';
import { session } from './session.js';

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
  stream = new EventSource('./v1/live');
  stream.onmessage = take;
  // Whatever the events are called.
  for (const name of ['sample', 'live']) stream.addEventListener(name, take);
  stream.onerror = () => {
    state.set((old) => ({ ...old, connected: false }));
    // A browser tries again by itself, unless the answer was a refusal. A stream does not tell which; a call does, and the
    // session ends if the key is not accepted any more.
    if (stream && stream.readyState === EventSource.CLOSED) call('GET', '/v1/whoami').catch(() => null).then(again);
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
  else if (isIn) startLive();
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
  for (const sale of sample.templates || []) note(sale, sample.now);
  state.set({ sample, at: performance.now(), connected: true });
}

function note(sale, now) {
  const rows = history.get(sale.id) || [];
  rows.push({ at: Date.parse(now) / 1000, rate: sale.claims_per_second ?? null, left: sale.left ?? null });
  if (rows.length > HISTORY) rows.shift();
  history.set(sale.id, rows);
}

/** Returns the samples of a sale since the page was opened, at most five minutes. */
export function historyOf(id) {
  return history.get(id) || [];
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
