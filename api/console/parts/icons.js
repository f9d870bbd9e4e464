// Drawings of a few strokes, in the colour of the text beside them.

import { html } from '../core/view.js';

const PATHS = {
  now: 'M3 12h4l3-8 4 16 3-8h4',
  sales: 'M4 7h16v4a2 2 0 0 0 0 4v3H4v-3a2 2 0 0 0 0-4z M14 7v11',
  customer: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8z M4 21c0-4 4-6 8-6s8 2 8 6',
  grants: 'M4 11h16v9H4z M12 11v9 M4 11l1-4h14l1 4 M12 7c-3 0-5-1-4-3s4 0 4 3c0-3 3-5 4-3s-1 3-4 3',
  health: 'M12 20s-8-5-8-11a4.5 4.5 0 0 1 8-2.8A4.5 4.5 0 0 1 20 9c0 6-8 11-8 11z',
  keys: 'M14 10a4 4 0 1 1-4-4 4 4 0 0 1 4 4z M13 13l7 7 M17 17l2-2',
  record: 'M6 3h9l4 4v14H6z M9 12h7 M9 16h7 M9 8h3',
  finding: 'M12 4l9 16H3z M12 10v4 M12 17v.2',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14z M16 16l5 5',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8z M12 2v3 M12 19v3 M2 12h3 M19 12h3 M5 5l2 2 M17 17l2 2 M5 19l2-2 M17 7l2-2',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z',
  system: 'M3 5h18v12H3z M8 21h8 M12 17v4',
  pause: 'M8 5v14 M16 5v14',
  play: 'M7 4l13 8-13 8z',
  check: 'M4 12l5 6L20 6',
  cross: 'M6 6l12 12 M18 6L6 18',
  wait: 'M12 7v5l3 3 M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z',
  more: 'M5 12h.01 M12 12h.01 M19 12h.01',
  out: 'M14 4h6v6 M20 4l-9 9 M18 14v6H4V6h6',
  plus: 'M12 5v14 M5 12h14',
  print: 'M7 8V3h10v5 M7 17H4v-8h16v8h-3 M7 14h10v7H7z',
  leave: 'M14 4H5v16h9 M10 12h11 M17 8l4 4-4 4',
};

export function Icon({ name, size = 20 }) {
  return html`<svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}
