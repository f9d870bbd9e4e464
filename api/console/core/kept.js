// What a tab keeps over a reload: texts that were typed, actions without an answer, the session's token. A browser that
// keeps nothing, e.g. because its storage is full, works on without.

/** Reads what was kept under a name, or returns `other`. */
export function kept(name, other = null) {
  try {
    const text = sessionStorage.getItem(name);
    return text === null ? other : JSON.parse(text);
  } catch {
    return other;
  }
}

export function keep(name, value) {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function forget(name) {
  try {
    sessionStorage.removeItem(name);
  } catch {
    // Nothing was kept.
  }
}

/** Returns the names that begin so. */
export function keptNames(prefix) {
  try {
    return Object.keys(sessionStorage).filter((name) => name.startsWith(prefix));
  } catch {
    return [];
  }
}
