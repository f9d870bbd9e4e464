// The first sentence: what works for users, why the rest does not, and what to do. The api makes it.

import { html, useEffect, useRef, useState } from '../core/view.js';
import { useLive } from '../core/live.js';
import { ago } from '../core/times.js';
import { isOnCall } from '../core/session.js';
import { Chip } from './chips.js';

const KINDS = { well: 'well', degraded: 'degraded', down: 'down', unknown: 'unknown' };

export function FirstSentence() {
  const { sample, age, isStale } = useLive();
  const impact = sample && sample.impact;
  const said = sentence(impact, age, isStale);
  const kind = !impact || isStale ? 'unknown' : KINDS[impact.state] || 'unknown';
  return html`<section class="first ${kind}" aria-label="State of the platform">
    <span class="dot" aria-hidden="true"></span>
    <p class="first-words">${said.main}${said.action && html`<span class="first-action"> ${said.action}</span>`}</p>
    <${Spoken} text=${said.main} />
    ${isOnCall() && html`<a class="first-more" href="#/health">Health</a>`}
  </section>`;
}

function sentence(impact, age, isStale) {
  if (isStale && age === null) return { main: 'Waiting for the first figures.' };
  if (isStale) return { main: `The figures stopped ${ago(age)}. Claims may work; this page does not hear from the api.` };
  if (!impact) return { main: 'It is not known whether all is well.' };
  const { action } = impact;
  if (action && impact.sentence.endsWith(action)) {
    return { main: impact.sentence.slice(0, -action.length).trim(), action };
  }
  return { main: impact.sentence };
}

/** Said aloud when it changes, but not each second while an age counts up. */
function Spoken({ text }) {
  const steady = text.replace(/\d+(\.\d+)?/g, '#');
  const before = useRef('');
  const [spoken, speak] = useState('');
  useEffect(() => {
    if (before.current !== steady) {
      before.current = steady;
      speak(text);
    }
  }, [steady]);
  return html`<span class="hidden" aria-live="polite">${spoken}</span>`;
}

/** What works, one by one. */
export function Abilities({ impact }) {
  const named = [['claims', 'Claims'], ['queued_claims', 'Queued claims'], ['payments', 'Payments'], ['lists', 'Lists'], ['expiry', 'Expiry']];
  return html`<ul class="abilities">
    ${named.map(([name, text]) => html`<li key=${name}><span>${text}</span> <${Chip} word=${impact[name] || 'unknown'} /></li>`)}
  </ul>`;
}
