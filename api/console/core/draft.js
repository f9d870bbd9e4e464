// What is typed into a form, kept over a reload and over a session that ends.

import { useEffect, useState } from './view.js';
import { forget, keep, kept } from './kept.js';

/** Like `useState`, under a name. Returns the value, how to change a part of it, and how to drop it. */
export function useDraft(name, first) {
  const full = `draft:${name}`;
  const [value, set] = useState(() => kept(full) || first);
  const [touched, touch] = useState(() => kept(full) !== null);
  useEffect(() => {
    if (touched) keep(full, value);
  }, [value, touched]);
  const change = (part) => {
    touch(true);
    set((old) => ({ ...old, ...part }));
  };
  const drop = (next = first) => {
    forget(full);
    touch(false);
    set(next);
  };
  return { value, change, drop, touched };
}
