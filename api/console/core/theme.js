// Dark, light, or as the system says.

const NAME = 'theme';
export const THEMES = ['system', 'light', 'dark'];

export function theme() {
  try {
    const name = localStorage.getItem(NAME);
    return THEMES.includes(name) ? name : 'system';
  } catch {
    return 'system';
  }
}

export function setTheme(name) {
  try {
    localStorage.setItem(NAME, name);
  } catch {
    // It holds for this page.
  }
  show(name);
}

export function show(name = theme()) {
  if (name === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  dispatchEvent(new Event('theme'));
}
