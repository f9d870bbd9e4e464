// The conservation equation of a sale: confirmed · held · in flight, of it queued · left = total. Pure, so that it can be
// tried without a page.

import { isKnown } from './numbers.js';

/**
 * Splits a total into the parts of its bar. Their sum is the total, whatever is not known.
 *
 * What the named parts leave over is shown for what it is: coupons that landed and are not told apart (too many to count at
 * each look), parts that are not known, drift, or, while the two counts cannot be compared, what is settling.
 * @returns {{all: number, parts: {name: string, text: string, value: number}[], verdict: 'holds'|'settling'|'drift'|'unknown'}}
 */
export function partsOfStock(sale) {
  const { total } = sale;
  if (!isKnown(total)) return { all: 1, parts: [{ name: 'unknown', text: 'not known', value: 1 }], verdict: 'unknown' };
  const queued = Math.min(sale.queued ?? 0, sale.in_flight ?? 0);
  const named = [
    { name: 'confirmed', text: 'confirmed', value: sale.confirmed },
    { name: 'held', text: 'held', value: sale.held },
    { name: 'in-flight', text: 'in flight', value: isKnown(sale.in_flight) ? sale.in_flight - queued : null },
    { name: 'queued', text: 'queued', value: queued },
    { name: 'left', text: 'left', value: sale.left },
  ];
  const parts = named.filter((part) => isKnown(part.value) && part.value > 0);
  const sum = parts.reduce((so_far, part) => so_far + part.value, 0);
  const rest = total - sum;
  const lacks = named.filter((part) => !isKnown(part.value)).map((part) => part.name);
  // Too many to tell apart at each look, which is no lack of knowledge: together they are what landed.
  const isLanded = lacks.length > 0 && lacks.every((name) => name === 'confirmed' || name === 'held');
  const verdict = verdictOf(sale, lacks.length === 0 || isLanded);
  if (rest > 0) {
    if (isLanded) parts.unshift({ name: 'landed', text: 'landed', value: rest });
    else if (lacks.length > 0) parts.push({ name: 'unknown', text: 'not known', value: rest });
    else if (verdict === 'drift') parts.push({ name: 'drift', text: 'drift', value: rest });
    else parts.push({ name: 'settling', text: 'settling', value: rest });
  } else if (rest < 0) {
    // More than there is: what is too much is taken off in the sum, and the bar is red.
    const name = verdict === 'drift' ? 'drift' : 'settling';
    parts.push({ name, text: name, value: rest });
  }
  return { all: Math.max(total, sum, 1), parts, verdict };
}

function verdictOf(sale, isWhole) {
  if (isKnown(sale.drift)) return sale.drift === 0 ? 'holds' : 'drift';
  return isWhole ? 'settling' : 'unknown';
}
