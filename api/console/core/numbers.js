// Numbers as people read them. What is not known is never 0.

const whole = new Intl.NumberFormat('en-GB');
const short = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1 });

export const UNKNOWN = 'not known';

export function isKnown(value) {
  return value !== null && value !== undefined;
}

/** `1,000`, or `not known`. */
export function count(value) {
  return isKnown(value) ? whole.format(value) : UNKNOWN;
}

/** `12` or `3.4`: tenths only where they matter. */
export function rate(value) {
  if (!isKnown(value)) return UNKNOWN;
  return value >= 20 ? whole.format(Math.round(value)) : short.format(value);
}

/** A part of a whole in percent, or null. */
export function percentOf(part, all) {
  if (!isKnown(part) || !isKnown(all) || all === 0) return null;
  return (100 * part) / all;
}

export function percent(value) {
  return isKnown(value) ? `${short.format(value)} %` : UNKNOWN;
}

/** `1 coupon`, `2 coupons`. */
export function several(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `+500`, `−3`. */
export function signed(value) {
  return value > 0 ? `+${whole.format(value)}` : whole.format(value).replace('-', '−');
}
