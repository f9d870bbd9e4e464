// What a shopper will see, as the api says it.

import { html, useEffect, useState } from '../../core/view.js';
import { ask } from '../../core/api.js';
import { count } from '../../core/numbers.js';
import { duration, time } from '../../core/times.js';
import { inWords, Loading } from '../../parts/problem.js';

/** Pause after the last key before the preview is asked for, in ms. */
const PAUSE_MS = 350;

/** `warns`: whether what is probably meant otherwise is said. Of a campaign that is out already it is no news. */
export function Preview({ read, warns }) {
  const [state, set] = useState({ shown: null, problem: null });
  // A campaign that has no name yet can be looked at all the same.
  const isWrong = Object.keys(read.wrong).some((name) => name !== 'name');
  const text = JSON.stringify({ ...read.body, name: read.body.name || 'Name of the campaign' });
  useEffect(() => {
    if (isWrong) return undefined;
    const left = new AbortController();
    const timer = setTimeout(() => {
      ask('preview_template', {}, { body: JSON.parse(text), signal: left.signal }).then(
        ({ body }) => set({ shown: body, problem: null }),
        (problem) => left.signal.aborted || set((old) => ({ ...old, problem })),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [text, isWrong]);
  return html`<section class="panel preview" aria-label="What a shopper sees" aria-live="polite">
    <h2>What a shopper sees</h2>
    ${isWrong && html`<p class="muted small">Something in the form is not right yet.</p>`}
    ${!isWrong && state.problem && html`<p class="wrong">${state.problem.message}</p>`}
    ${state.shown ? html`<${Card} shop=${state.shown.shop} isOld=${isWrong || state.problem !== null} />` : !isWrong && !state.problem && html`<${Loading} />`}
    ${(state.shown && warns ? state.shown.warnings : []).map((warning) => html`<p key=${warning} class="note warn">${inWords(warning)}</p>`)}
  </section>`;
}

function Card({ shop, isOld }) {
  const valid = shop.valid_for_ms ? `valid for ${duration(shop.valid_for_ms)}` : `valid until ${time(shop.valid_until, 'minute')}`;
  const hold = shop.hold_ms ? html`<p>To be paid for within ${duration(shop.hold_ms)}.</p>` : null;
  return html`<div class="coupon-card ${isOld ? 'is-stale' : ''}">
    <p class="coupon-off">${shop.discount_text}</p>
    <p class="coupon-name">${shop.name}</p>
    <p>From ${time(shop.claim_starts_at, 'minute')} to ${time(shop.claim_ends_at, 'minute')}, ${valid}.</p>
    ${hold}
    <p class="muted small">${shop.per_user_limit ? `${count(shop.per_user_limit)} for each` : 'As many as you like'}${shop.total ? `, ${count(shop.total)} in all` : ''}.</p>
  </div>`;
}
