// Refusals and empty places, in words.

import { html } from '../core/view.js';
import { inLocalTime } from '../core/times.js';

const NOT_MINE = ['PLATFORM_ONLY', 'SCOPE_LACKING'];

/** What the api refused, with what to name when asking about it. */
export function ProblemNote({ problem, again }) {
  if (!problem) return null;
  if (NOT_MINE.includes(problem.code)) return html`<${Forbidden} problem=${problem} />`;
  // Nothing is broken: an id has a digit too few, or is another merchant's.
  if (problem.status === 404) return html`<div class="note" role="status"><p>${problem.message}</p></div>`;
  return html`<div class="note bad" role="alert">
    <p>${inLocalTime(problem.message)}</p>
    <p class="small">
      ${problem.code && html`<code>${problem.code}</code>${' '}`}
      ${problem.requestId && html`request <code>${problem.requestId}</code>${' '}`}
      ${again && html`<button class="link" onClick=${again}>Try again</button>`}
    </p>
  </div>`;
}

function Forbidden({ problem }) {
  return html`<div class="note" role="status">
    <p><strong>This key may not see this.</strong> ${problem.message}</p>
  </div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p><p>${children}</p></div>`;
}

/** A warning of the api without the field's name in front of it, which is for programs. */
export function inWords(warning) {
  const text = warning.replace(/^[a-z_.]+: /, '');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Grey lines where something will be. */
export function Loading({ lines = 3 }) {
  return html`<div class="loading" role="status" aria-label="Loading">
    ${Array.from({ length: lines }, (_, at) => html`<span key=${at} class="line"></span>`)}
  </div>`;
}

/** Shows what a page reads: its problem, that it loads, or what it read. */
export function Read({ of, children }) {
  const { data, problem, loading, again } = of;
  if (problem && !data) return html`<${ProblemNote} problem=${problem} again=${again} />`;
  if (!data) return loading ? html`<${Loading} />` : null;
  return html`
    ${problem && html`<div class="note warn" role="status"><p>This is what was read before: ${problem.message}</p></div>`}
    ${children(data)}`;
}
