// The conservation equation as one bar, with its figures below.

import { html } from '../core/view.js';
import { count, isKnown, signed } from '../core/numbers.js';
import { partsOfStock } from '../core/parts_of_stock.js';

const VERDICTS = {
  holds: ['✓', 'adds up', 'The parts add up to the total: nothing is oversold, nothing is lost.'],
  settling: ['…', 'settling', 'Claims are on their way, so the two counts cannot be compared at this moment.'],
  drift: ['!', 'drift', 'MySQL and the gate differ while nothing is on its way. MySQL is right; rebuild the gate, and find out why.'],
  unknown: ['?', 'not known', 'Part of the figures cannot be read at the moment.'],
};

export function StockBar({ sale, isStale, figures = true }) {
  const { all, parts, verdict } = partsOfStock(sale);
  const words = parts.map((part) => `${count(part.value)} ${part.text}`).join(', ');
  const label = isKnown(sale.total) ? `${words}; total ${count(sale.total)}` : 'The stock is not known.';
  return html`<div class="stock ${isStale ? 'is-stale' : ''}">
    <div class="bar ${verdict}" role="img" aria-label=${label}>
      ${parts.filter((part) => part.value > 0).map((part) => html`<span key=${part.name} class="part ${part.name}" title="${count(part.value)} ${part.text}"
        style=${{ flexGrow: part.value / all }}></span>`)}
    </div>
    ${figures && html`<${Equation} sale=${sale} parts=${parts} verdict=${verdict} isStale=${isStale} />`}
  </div>`;
}

/** The same in figures. Parts that a sale does not have are left out; what is not known is said. */
function Equation({ sale, parts, verdict, isStale }) {
  const [mark, word, help] = VERDICTS[verdict];
  const show = parts.length ? parts : [{ name: 'left', text: 'left', value: 0 }];
  const what = verdict === 'drift' && isKnown(sale.drift) ? `drift ${signed(sale.drift)}` : word;
  return html`<p class="equation">
    ${show.map((part, at) => html`<span key=${part.name} class="term">
      ${at > 0 && html`<span class="op">${part.value < 0 ? '−' : '+'}</span>`}
      <span class="swatch ${part.name}" aria-hidden="true"></span>
      <b>${isKnown(sale.total) ? count(Math.abs(part.value)) : ''}</b> ${part.text}</span>`)}
    <span class="term"><span class="op">=</span><b>${count(sale.total)}</b> total</span>
    <span class="verdict ${verdict}" title=${help}><span aria-hidden="true">${mark}</span> ${what}${isStale && verdict !== 'unknown' ? ' when last seen' : ''}</span>
  </p>`;
}
