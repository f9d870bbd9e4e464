// Calls of the api. Each answer is either its body, or a problem that is thrown.

import { callOf } from '../calls/calls.js';
import { session } from './session.js';

/** How long an answer may take before its outcome counts as unknown, in ms: longer than the api's own 15 s. */
const ANSWER_MS = 20_000;

const UNSAFE = ['POST', 'PATCH', 'PUT', 'DELETE'];

/** A refusal of the api, or no answer at all (`status` 0). */
export class Problem extends Error {
  constructor(status, body, retryAfter) {
    super(body.detail || body.title || `The api answered ${status}.`);
    this.status = status;
    this.code = body.code || '';
    this.body = body;
    this.requestId = body.request_id || null;
    this.retryAfter = retryAfter;
    this.retryable = status === 0 || body.retryable === true;
  }

  /** Whether nobody knows if it was done. */
  get isUnknown() {
    return this.status === 0 || this.status >= 500;
  }
}

/**
 * Calls the api.
 * @param {string} method
 * @param {string} path below the origin, of a call (calls/calls.js)
 * @param {{body?: unknown, key?: string, ifMatch?: string, apiKey?: string, accept?: string, text?: boolean, signal?: AbortSignal}} [more]
 * `apiKey`: signs in, so that a refusal of it ends no session. `text`: the answer is no JSON.
 * @returns {Promise<{status: number, body: any, etag: string|null, headers: Headers}>}
 */
export async function call(method, path, more = {}) {
  const headers = { accept: more.accept || 'application/json' };
  if (more.body !== undefined) headers['content-type'] = 'application/json';
  if (more.key) headers['idempotency-key'] = more.key;
  if (more.ifMatch) headers['if-match'] = more.ifMatch;
  const identity = session.get().identity;
  if (more.apiKey) headers['x-api-key'] = more.apiKey;
  else if (UNSAFE.includes(method) && identity) headers['x-csrf-token'] = identity.csrf_token;
  const body = more.body === undefined ? undefined : JSON.stringify(more.body);
  const late = AbortSignal.timeout ? AbortSignal.timeout(ANSWER_MS) : undefined;
  const signal = more.signal && late && AbortSignal.any ? AbortSignal.any([more.signal, late]) : more.signal || late;
  let answer;
  let text;
  try {
    answer = await fetch(`.${path}`, { method, headers, body, signal, credentials: 'same-origin', cache: 'no-store' });
    text = await answer.text();
  } catch (error) {
    if (more.signal && more.signal.aborted) throw error;
    throw new Problem(0, { detail: 'The api did not answer. It may be restarting, or the network is away.' }, null);
  }
  const retryAfter = Number(answer.headers.get('retry-after')) || null;
  const parsed = more.text && answer.ok ? text : parse(text);
  if (answer.ok) return { status: answer.status, body: parsed, etag: answer.headers.get('etag'), headers: answer.headers };
  if (answer.status === 401 && !more.apiKey) session.lock(parsed && parsed.detail);
  throw new Problem(answer.status, parsed || {}, retryAfter);
}

/** Makes a call by its name. */
export function ask(name, parts, more) {
  const { method, path } = callOf(name, parts);
  return call(method, path, more);
}

/** Reads, and returns the body. */
export async function read(path, more) {
  return (await call('GET', path, more)).body;
}

function parse(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return { detail: 'The answer is not from the api: something between may have made it.' };
  }
}
