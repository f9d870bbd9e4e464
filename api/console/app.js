// The console: signs in, opens the page that the address names, and keeps the live stream.

import { html, render, useEffect } from './core/view.js';
import { findUnanswered } from './core/actions.js';
import { ask } from './core/api.js';
import { startLive, stopLive } from './core/live.js';
import { useRoute } from './core/router.js';
import { can, session, useSession } from './core/session.js';
import { show as showTheme } from './core/theme.js';
import { Shell, pages } from './parts/shell.js';
import { Toasts } from './parts/toasts.js';
import { Empty } from './parts/problem.js';
import { Now } from './pages/now/now.js';
import { Campaigns } from './pages/campaign/list.js';
import { Campaign } from './pages/campaign/campaign.js';
import { Edit } from './pages/edit/edit.js';
import { Customer } from './pages/customer/customer.js';
import { Grants } from './pages/grants/grants.js';
import { Health } from './pages/health/health.js';
import { Keys } from './pages/keys/keys.js';
import { RecordPage } from './pages/record/record.js';
import { Findings } from './pages/findings/findings.js';
import { SignIn } from './pages/sign_in.js';

const PAGES = {
  now: Now, campaigns: Campaigns, campaign: Campaign, create: Edit, edit: Edit, customer: Customer, grants: Grants,
  health: Health, keys: Keys, record: RecordPage, findings: Findings,
};

/** Which entry of the navigation stands for a page that has none. */
const BELOW = { campaign: 'campaigns', create: 'campaigns', edit: 'campaigns' };

function App() {
  const { identity, locked, why } = useSession();
  const { parts, query } = useRoute();
  const name = parts[0] || (pages()[0] || ['now'])[0];
  const isIn = identity !== null && !locked;
  useEffect(() => {
    if (isIn && can('read')) startLive();
    else stopLive();
  }, [isIn]);
  useEffect(() => {
    document.title = `${name[0].toUpperCase()}${name.slice(1)} · Coupons`;
    scrollTo(0, 0);
  }, [name, parts[1]]);
  if (!identity) return html`<${SignIn} />`;
  const Page = PAGES[name];
  // While the session is over the page stays as it is, out of reach, so that nothing that was typed is lost.
  return html`
    <div class=${locked ? 'locked' : ''} inert=${locked}>
      <${Shell} present=${BELOW[name] || name} key=${identity.key_id || 'platform'}>
        ${!can('read') ? html`<${Empty} title="This key opens no page">It is for a system, such as a checkout. Sign in with a key that may read.<//>`
    : Page ? html`<${Page} key=${parts.join('/')} id=${parts[1]} parts=${parts} query=${query} />`
    : html`<${Empty} title="There is no such page">Choose one from the navigation.<//>`}
      <//>
    </div>
    ${locked && html`<${SignIn} why=${why} of=${identity} />`}
    <${Toasts} />`;
}

/** Another tab, or another key since, may have begun the session of the cookie; its rights may have changed. */
function renewIdentity() {
  if (session.get().identity) ask('get_console_session').then(({ body }) => session.begin(body), () => null);
}

showTheme();
renewIdentity();
findUnanswered();
render(html`<${App} />`, document.getElementById('app'));
