// What is around every page: the way to the others, the search, the theme, who is signed in.

import { html, useState } from '../core/view.js';
import { ask } from '../core/api.js';
import { go } from '../core/router.js';
import { can, isOnCall, session } from '../core/session.js';
import { setTheme, theme, THEMES } from '../core/theme.js';
import { stopLive } from '../core/live.js';
import { Icon } from './icons.js';
import { FirstSentence } from './sentence.js';
import { Unanswered } from './unanswered.js';

/** The pages that this key may open. */
export function pages() {
  const all = [
    ['now', 'Now', 'now', can('read')], ['campaigns', 'Campaigns', 'sales', can('read')],
    ['customer', 'Customer', 'customer', can('read')], ['grants', 'Grants', 'grants', can('read')],
    ['health', 'Health', 'health', isOnCall()], ['keys', 'Keys', 'keys', can('admin')],
    ['record', 'Record', 'record', can('read')], ['findings', 'Findings', 'finding', can('read')],
  ];
  return all.filter(([, , , may]) => may);
}

/** How many are at the lower edge of a narrow screen, beside “More”. */
const AT_EDGE = 4;

export function Shell({ present, children }) {
  const [open, setOpen] = useState(false);
  const all = pages();
  const link = ([name, text, icon]) => html`<a key=${name} href="#/${name}" aria-current=${name === present ? 'page' : undefined}
    onClick=${() => setOpen(false)}><${Icon} name=${icon} /><span>${text}</span></a>`;
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${skip}>To the content</a>
    <header class="top">
      <a class="brand" href="#/now" aria-label="Coupons: now"><${Icon} name="sales" size=${22} /> <span>Coupons</span></a>
      ${can('read') && html`<${Search} />`}
      <${ThemeSwitch} />
      <${Who} />
    </header>
    <nav class="side" aria-label="Pages">${all.map(link)}</nav>
    <main id="main" tabindex="-1">
      ${can('read') && html`<${FirstSentence} />`}
      <${Unanswered} />
      ${children}
    </main>
    <nav class="edge" aria-label="Pages">
      ${all.slice(0, AT_EDGE).map(link)}
      ${all.length > AT_EDGE && html`<button aria-expanded=${open} aria-controls="further" onClick=${() => setOpen(!open)}>
        <${Icon} name="more" /><span>More</span></button>`}
    </nav>
    ${open && html`<div class="further" id="further">${all.slice(AT_EDGE).map(link)}</div>`}
  </div>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function Search() {
  const submit = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get('q').trim();
    if (text) go(['customer'], { q: text });
  };
  return html`<form class="search" role="search" aria-label="Everywhere" onSubmit=${submit}>
    <${Icon} name="search" size=${18} />
    <input name="q" type="search" aria-label="Find a user, coupon, claim, order or campaign" placeholder="User, coupon, claim, order, campaign" autocomplete="off" />
  </form>`;
}

function ThemeSwitch() {
  const [present, choose] = useState(theme());
  const next = THEMES[(THEMES.indexOf(present) + 1) % THEMES.length];
  const icon = { system: 'system', light: 'sun', dark: 'moon' }[present];
  const change = () => {
    setTheme(next);
    choose(next);
  };
  return html`<button class="bare" title="Theme: ${present}" aria-label="Theme: ${present}. Change to ${next}." onClick=${change}>
    <${Icon} name=${icon} /></button>`;
}

function Who() {
  const { identity } = session.get();
  const leave = async () => {
    // The cookie ends with the answer; without one, what the page knows ends all the same.
    await ask('end_console_session').catch(() => null);
    stopLive();
    session.end();
  };
  return html`<div class="who">
    <span class="who-name" title="Merchant ${identity.merchant_id}; ${identity.scopes.join(', ')}">${identity.name}</span>
    <button class="bare" aria-label="Sign out ${identity.name}" title="Sign out" onClick=${leave}><${Icon} name="leave" /></button>
  </div>`;
}
