// The way in: an API key becomes a session, whose cookie no script can read. Over a page whose session has ended, it stands
// in front, and the page below keeps what was typed.

import { html, useEffect, useRef, useState } from '../core/view.js';
import { ask } from '../core/api.js';
import { session } from '../core/session.js';
import { inLocalTime } from '../core/times.js';
import { Field, Text } from '../parts/field.js';
import { Icon } from '../parts/icons.js';

/** What is said where the cookie does not come back. */
const NOT_KEPT = 'The browser does not keep the session here. Open the console by https, or on the machine of the api.';

export function SignIn({ why, of }) {
  const [key, type] = useState('');
  const [state, set] = useState({ running: false, problem: null });
  const place = useRef(null);
  const Place = of ? 'dialog' : 'main';
  // Above a dialog that is open, too: of those the browser shows the last one.
  const stay = () => of && place.current && !place.current.open && place.current.showModal();
  useEffect(() => {
    stay();
    place.current.querySelector('input').focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    set({ running: true, problem: null });
    try {
      const { body } = await ask('begin_console_session', {}, { apiKey: key.trim() });
      if (await isKept()) session.begin(body);
      else set({ running: false, problem: { message: NOT_KEPT } });
    } catch (problem) {
      set({ running: false, problem });
    }
  };
  const wrong = state.problem && words(state.problem);
  return html`<${Place} class="sign-in" ref=${place} aria-label="Sign in" onCancel=${(event) => event.preventDefault()} onClose=${stay}>
    <form onSubmit=${submit}>
      <h1><${Icon} name="sales" size=${28} /> Coupons</h1>
      ${why && html`<p class="note warn" role="status">${inLocalTime(why)} Sign in again: what you typed is still there.</p>`}
      ${of && html`<p class="small">You were signed in as <strong>${of.name}</strong>.</p>`}
      <${Field} id="key" label="API key" wrong=${wrong} help="It stays between this page and the api, and is not kept by the browser.">
        <${Text} id="key" type="password" value=${key} change=${type} wrong=${wrong} spellcheck=${false} required />
      <//>
      <button class="main wide" disabled=${state.running || !key.trim()}>${state.running ? 'Signing in…' : 'Sign in'}</button>
      ${of && html`<button type="button" class="link" onClick=${() => session.end()}>Leave this page instead</button>`}
    </form>
  <//>`;
}

/** Without TLS a browser keeps the cookie on its own machine alone, and takes it from other addresses without a word. */
async function isKept() {
  try {
    await ask('get_console_session');
    return true;
  } catch (problem) {
    return problem.status !== 401;
  }
}

function words(problem) {
  if (problem.status === 401) return 'The api does not accept this key. It may have been revoked or have expired.';
  return problem.message;
}
