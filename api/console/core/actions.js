// Changes. Each is stored with its idempotency key before it is sent. After a lost answer the same request is sent again
// under the same key, so that it takes effect once: by itself, and after a reload by the operator.

import { call, Problem } from './api.js';
import { forget, keep, kept, keptNames } from './kept.js';
import { session } from './session.js';
import { store } from './store.js';

const PREFIX = 'action:';

/** Attempts before the operator decides, and the longest pause between two, in ms. */
const ATTEMPTS = 5;
const PAUSE_MAX_MS = 8_000;

/** Actions that are under way or without an answer, by their key. */
export const actions = store({});

/**
 * @typedef {{method: string, path: string, body?: unknown, ifMatch?: string, label: string, keyless?: boolean}} Change
 * `label` tells people what it is, e.g. `Pause “A sale”`.
 */

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

function show(key, change) {
  actions.set((all) => {
    const next = { ...all };
    if (change) next[key] = change;
    else delete next[key];
    return next;
  });
}

/** Finds what an earlier load of the page has sent without an answer. */
export function findUnanswered() {
  for (const name of keptNames(PREFIX)) {
    const change = kept(name);
    if (change) show(name.slice(PREFIX.length), { ...change, state: 'unanswered' });
  }
}

/** The same change that is under way already: a double click makes one change. */
function underWay(change) {
  const same = (other) => other.state === 'sending' && other.method === change.method && other.path === change.path
    && JSON.stringify(other.body) === JSON.stringify(change.body);
  return Object.values(actions.get()).some(same);
}

/**
 * Sends a change. Returns the answer, or null if the same change is under way.
 * @param {Change} change
 */
export async function act(change) {
  if (underWay(change)) return null;
  const key = newKey();
  // Whose it is: nobody else's session sends it again.
  const own = { ...change, by: session.get().identity.key_id };
  keep(PREFIX + key, own);
  return send(key, own);
}

/** Sends an unanswered change again, under its key. */
export async function sendAgain(key) {
  const change = actions.get()[key];
  return change ? send(key, change) : null;
}

/** Gives an unanswered change up: whether it was done is then for the operator to see. */
export function giveUp(key) {
  forget(PREFIX + key);
  show(key, null);
}

async function send(key, change) {
  for (let attempt = 1; ; attempt += 1) {
    show(key, { ...change, state: 'sending', attempt });
    try {
      const sent = { body: change.body, ifMatch: change.ifMatch, key: change.keyless ? undefined : key };
      const answer = await call(change.method, change.path, sent);
      giveUp(key);
      return answer;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 401) {
        // It was refused before it took effect. It waits for the next sign-in.
        show(key, { ...change, state: 'unanswered', why: 'It waits for a sign-in.' });
        throw error;
      }
      const isLost = error.isUnknown || (error.retryable && error.status === 429);
      if (!isLost) {
        giveUp(key);
        throw error;
      }
      if (attempt >= ATTEMPTS) {
        show(key, { ...change, state: 'unanswered', why: error.message });
        throw error;
      }
      show(key, { ...change, state: 'sending', attempt, why: error.message });
      const pause = error.retryAfter ? error.retryAfter * 1_000 : 500 * 2 ** attempt;
      await new Promise((done) => setTimeout(done, Math.min(pause, PAUSE_MAX_MS)));
    }
  }
}
