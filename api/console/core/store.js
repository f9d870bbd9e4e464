// A value that components follow.

import { useEffect, useState } from './view.js';

/** Makes a store: `get`, `set`, and `follow`, which returns how to stop. */
export function store(first) {
  let value = first;
  const followers = new Set();
  return {
    get: () => value,
    set(next) {
      value = typeof next === 'function' ? next(value) : next;
      for (const follower of [...followers]) follower(value);
    },
    follow(follower) {
      followers.add(follower);
      return () => followers.delete(follower);
    },
  };
}

/** Returns the store's value, and renders again when it changes. */
export function useStore(source) {
  const [value, show] = useState(source.get());
  useEffect(() => {
    // It may have changed between the render and this effect.
    show(source.get());
    return source.follow((next) => show(next));
  }, [source]);
  return value;
}

/** Renders again every `ms`: for ages and countdowns. Returns a monotonic time in milliseconds. */
export function useTicks(ms = 1000) {
  const [now, tick] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => tick(performance.now()), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}
