// A campaign by its name, where an answer has its number only.

import { html } from '../core/view.js';
import { pathOf } from '../calls/calls.js';
import { useLoad } from '../core/load.js';
import { to } from '../core/router.js';

/** Until the name is read, and where it cannot be, the number is shown. */
export function CampaignLink({ id }) {
  const { data } = useLoad(pathOf('get_template', { id }));
  return html`<a href=${to(['campaign', id])}>${data ? data.name : id}</a>`;
}
