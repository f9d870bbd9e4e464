// A key's secret, shown once. It is on no other page, and not kept.

import { html, useRef, useState } from '../../core/view.js';

export function Secret({ made, close }) {
  const [copied, set] = useState(false);
  const field = useRef(null);
  const copy = async () => {
    field.current.select();
    try {
      await navigator.clipboard.writeText(made.key);
      set(true);
    } catch {
      // Without https a page may not write there; the text is selected.
      set(false);
    }
  };
  return html`<section class="panel secret" role="status" aria-label="The new key">
    <h2>The key “${made.name}”</h2>
    <p>It is shown <strong>only once</strong>. Copy it to where it is used.</p>
    <div class="joined"><input ref=${field} readonly value=${made.key} aria-label="Key" onFocus=${(event) => event.target.select()} />
      <button class="main" onClick=${copy}>${copied ? 'Copied' : 'Copy'}</button></div>
    <footer><button onClick=${close}>I have it</button></footer>
  </section>`;
}
