// Sales that were paused at their gate while the database did not answer: the database learns it later, and until then the
// stream may still call them published.

import { store } from './store.js';

/** Their ids. */
export const atGate = store(new Set());
