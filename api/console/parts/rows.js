// Lists as tables that become cards on a narrow screen, page by page.

import { html } from '../core/view.js';
import { Empty, Loading, ProblemNote } from './problem.js';

/**
 * @param {{columns: {name: string, show: (row: any) => any, kind?: string}[], rows: any[], keyOf: (row: any) => string, label: string}} props
 */
export function Table({ columns, rows, keyOf, label }) {
  return html`<div class="table-place"><table class="rows" aria-label=${label}>
    <thead><tr>${columns.map((column) => html`<th key=${column.name} scope="col" class=${column.kind || ''}>${column.name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyOf(row)}>
      ${columns.map((column) => html`<td key=${column.name} class=${column.kind || ''} data-name=${column.name}><div class="cell">${column.show(row)}</div></td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

/** A list that is read page by page (core/load.js). */
export function Listed({ list, columns, keyOf, label, empty }) {
  if (list.problem && list.rows.length === 0) return html`<${ProblemNote} problem=${list.problem} again=${list.again} />`;
  if (list.loading && list.rows.length === 0) return html`<${Loading} />`;
  if (list.rows.length === 0 && !list.hasMore && list.unreadable.length === 0) return html`<${Empty} title=${empty[0]}>${empty[1]}<//>`;
  return html`
    <${Table} columns=${columns} rows=${list.rows} keyOf=${keyOf} label=${label} />
    <${ProblemNote} problem=${list.problem} again=${list.more} />
    ${list.unreadable.length > 0 && html`<p class="note warn">Damaged, and left out: ${list.unreadable.join(', ')}.</p>`}
    ${list.hasMore && html`<p class="more"><button onClick=${list.more} disabled=${list.loading}>
      ${list.loading ? 'Reading…' : 'Show more'}</button></p>`}`;
}
