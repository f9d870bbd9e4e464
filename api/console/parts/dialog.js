// A dialog in front of the page: the browser keeps the keyboard inside, and Escape closes it.

import { html, useEffect, useRef } from '../core/view.js';

let titles = 0;

export function Dialog({ title, close, children, wide }) {
  const box = useRef(null);
  const id = useRef(null);
  if (id.current === null) {
    titles += 1;
    id.current = `dialog-${titles}`;
  }
  useEffect(() => {
    const before = document.activeElement;
    if (!box.current.open) box.current.showModal();
    // Not the button that closes it, which is the first of all.
    const first = box.current.querySelector('form :is(input, select, textarea)');
    if (first) first.focus();
    return () => before && before.focus && before.focus();
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    close();
  };
  const outside = (event) => event.target === box.current && close();
  return html`<dialog ref=${box} class=${wide ? 'wide' : ''} aria-labelledby=${id.current} onCancel=${cancel} onMouseDown=${outside}>
    <div class="dialog-body">
      <header><h2 id=${id.current}>${title}</h2>
        <button class="bare" aria-label="Close" onClick=${close}>×</button></header>
      ${children}
    </div>
  </dialog>`;
}
