// What a page reads, with its states: loading, there, refused. Old data stays while newer is read.

import { useCallback, useEffect, useRef, useState } from './view.js';
import { withQuery } from '../calls/calls.js';
import { call, read } from './api.js';
import { useStore } from './store.js';
import { session } from './session.js';

/**
 * Reads a path, again whenever it changes, and every `everyMs` if that is given. A null path reads nothing.
 * @returns {{data: any, etag: string|null, problem: Problem|null, loading: boolean, again: () => void}}
 */
export function useLoad(path, everyMs = 0) {
  const [state, set] = useState({ data: null, etag: null, problem: null, loading: path !== null, of: path });
  const [turn, next] = useState(0);
  const { locked } = useStore(session);
  const again = useCallback(() => next((n) => n + 1), []);
  // An answer that takes longer than `everyMs` is waited for: giving it up for the next one would never show any.
  const waits = useRef(false);
  useEffect(() => {
    if (path === null || locked) return undefined;
    const left = new AbortController();
    waits.current = true;
    set((old) => (old.of === path ? { ...old, loading: true } : { data: null, etag: null, problem: null, loading: true, of: path }));
    call('GET', path, { signal: left.signal }).then(
      ({ body, etag }) => {
        waits.current = false;
        set({ data: body, etag, problem: null, loading: false, of: path });
      },
      (problem) => {
        if (left.signal.aborted) return;
        waits.current = false;
        set((old) => ({ ...old, problem, loading: false }));
      },
    );
    return () => left.abort();
  }, [path, turn, locked]);
  useEffect(() => {
    if (!everyMs || path === null) return undefined;
    const timer = setInterval(() => document.hidden || waits.current || again(), everyMs);
    return () => clearInterval(timer);
  }, [path, everyMs]);
  const isOfPath = state.of === path;
  return { ...(isOfPath ? state : { data: null, etag: null, problem: null, loading: true }), again };
}

/**
 * Reads a list page by page.
 * @returns {{rows: any[], first: any, unreadable: string[], problem: any, loading: boolean, hasMore: boolean, more: () => void, again: () => void}}
 * `unreadable`: entries with a damaged value, which the api names and leaves out.
 */
export function useList(path, query = {}) {
  const [state, set] = useState({ rows: [], first: null, unreadable: [], cursor: null, problem: null, loading: true });
  const { locked } = useStore(session);
  const asked = path === null ? null : withQuery(path, query);
  const current = useRef(asked);
  const begin = useCallback(() => {
    current.current = asked;
    if (asked === null) return;
    set((old) => ({ ...old, loading: true, problem: null }));
    load(asked, null, []);
  }, [asked]);
  function load(from, cursor, rows) {
    const url = cursor ? `${from}${from.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}` : from;
    read(url).then(
      (page) => {
        if (current.current !== from) return;
        const all = rows.concat(page.data);
        set((old) => ({
          rows: all, first: cursor ? old.first : page, cursor: page.next_cursor, problem: null, loading: false,
          unreadable: (cursor ? old.unreadable : []).concat(page.unreadable || []),
        }));
      },
      (problem) => current.current === from && set((old) => ({ ...old, problem, loading: false })),
    );
  }
  useEffect(() => {
    if (!locked) begin();
  }, [begin, locked]);
  const more = () => {
    set((old) => ({ ...old, loading: true }));
    load(asked, state.cursor, state.rows);
  };
  return { ...state, hasMore: Boolean(state.cursor), more, again: begin };
}
