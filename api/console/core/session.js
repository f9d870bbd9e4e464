// Who is signed in, and what the key may do. The cookie itself is out of reach of scripts.

import { store, useStore } from './store.js';

/** Shared by all tabs, as the cookie is: a link to a customer opens in a new one. */
const NAME = 'identity';

function read() {
  try {
    const identity = JSON.parse(localStorage.getItem(NAME));
    // Another version may have kept another form.
    return identity && identity.csrf_token && Array.isArray(identity.scopes) ? identity : null;
  } catch {
    return null;
  }
}

function write(identity) {
  try {
    if (identity) localStorage.setItem(NAME, JSON.stringify(identity));
    else localStorage.removeItem(NAME);
  } catch {
    // It holds for this page.
  }
}

/**
 * The identity is the answer of `begin_console_session`: {@link import('../calls/answers.js').ConsoleSession}.
 * `locked`: the session ended while the page was open. What was typed stays below the sign-in.
 */
const state = store({ identity: read(), locked: false, why: null });

export const session = {
  get: state.get,
  follow: state.follow,
  /** Begins a session, after a sign-in. */
  begin(identity) {
    write(identity);
    state.set({ identity, locked: false, why: null });
  },
  /** The api does not know the session any more. */
  lock(why) {
    const { identity, locked } = state.get();
    if (identity && !locked) state.set({ identity, locked: true, why: why || 'The session has ended.' });
  },
  end() {
    write(null);
    state.set({ identity: null, locked: false, why: null });
  },
};

// Another tab has signed in or out.
addEventListener('storage', (event) => {
  if (event.key === NAME) state.set({ identity: read(), locked: false, why: null });
});

export function useSession() {
  return useStore(session);
}

/** Scopes that contain others. */
const CONTAINS = { admin: ['operate', 'read'], operate: ['read'], emergency: ['read'] };

/** Whether the key has a right. What it has not is not offered. */
export function can(right) {
  const { identity } = session.get();
  if (!identity) return false;
  return identity.scopes.some((scope) => scope === right || (CONTAINS[scope] || []).includes(right));
}

/** Whether it is the platform's own key. */
export function isPlatform() {
  const { identity } = session.get();
  return identity !== null && identity.key_id === null;
}

/** Whether it sees every merchant's sales, may pause and resume them, and read the health of all processes. */
export function isOnCall() {
  const { identity } = session.get();
  return identity !== null && identity.is_on_call;
}

/** Whether a sale is another merchant's, which only those on call see: its stock and its pause, and nothing else of it. */
export function isForeign(sale) {
  const { identity } = session.get();
  return identity !== null && Boolean(sale.merchant_id) && String(sale.merchant_id) !== String(identity.merchant_id);
}

export function canHalt() {
  return can('operate') || isOnCall();
}
