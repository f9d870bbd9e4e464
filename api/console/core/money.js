// Money and percentages as people write them. The api has integers in minor units; nothing here computes with fractions.

/** Decimals by ISO 4217; every other currency has two. The api has the same lists (crates/coupon/src/money). */
const WITHOUT = 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'.split(' ');
const THREE = 'BHD IQD JOD KWD LYD OMR TND'.split(' ');
const FOUR = ['CLF', 'UYW'];

export function decimals(currency) {
  if (WITHOUT.includes(currency)) return 0;
  if (THREE.includes(currency)) return 3;
  return FOUR.includes(currency) ? 4 : 2;
}

function label(currency) {
  return currency === 'EUR' ? '€' : `${currency} `;
}

/** Writes minor units as a number with the currency's decimals: `20.00`. */
export function plain(minor, currency) {
  if (minor === null || minor === undefined) return '';
  const places = decimals(currency);
  const digits = String(Math.abs(minor)).padStart(places + 1, '0');
  const sign = minor < 0 ? '-' : '';
  if (places === 0) return sign + digits;
  return `${sign}${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

/** Writes minor units as money: `€20.00`, `JPY 500`. */
export function money(minor, currency) {
  return minor < 0 ? `-${label(currency)}${plain(-minor, currency)}` : label(currency) + plain(minor, currency);
}

/**
 * Reads what a person typed as minor units.
 * @returns {{minor: number|null, wrong: string|null}} both null: nothing was typed
 */
export function readMoney(text, currency) {
  const typed = text.trim().replace(/^€\s*/, '').replace(new RegExp(`^${currency.replace(/[^A-Z]/g, '')}\\s*`), '');
  if (!typed) return { minor: null, wrong: null };
  const places = decimals(currency);
  const match = /^(\d{1,13})(?:[.,](\d+))?$/.exec(typed);
  if (!match) return { minor: null, wrong: 'Write a number, for example 20.00.' };
  const fraction = (match[2] || '').replace(/0+$/, '');
  if (fraction.length > places) {
    const most = places === 0 ? 'no decimals' : `at most ${places} decimals`;
    return { minor: null, wrong: `${currency} has ${most}.` };
  }
  const minor = Number(match[1] + fraction.padEnd(places, '0'));
  if (!Number.isSafeInteger(minor)) return { minor: null, wrong: 'It is too large.' };
  return { minor, wrong: null };
}

/** Reads a percentage: above 0, at most 100, two decimals. */
export function readPercent(text) {
  const typed = text.trim().replace(/\s*%$/, '').replace(',', '.');
  if (!typed) return { percent: null, wrong: 'Say how much, for example 20.' };
  if (!/^\d{1,3}(\.\d{1,2})?$/.test(typed)) return { percent: null, wrong: 'Write a percentage, for example 20 or 12.5.' };
  const percent = Number(typed);
  if (percent <= 0 || percent > 100) return { percent: null, wrong: 'Use a percentage above 0, at most 100.' };
  return { percent: typed, wrong: null };
}
