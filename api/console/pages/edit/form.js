// A template as a form has it, in people's units, and as the api has it. Pure.

import { plain, readMoney, readPercent } from '../../core/money.js';
import { fromUnit, readLocal, toLocal, toUnit } from '../../core/times.js';

/** What a new campaign begins with: tomorrow at nine, for a day, valid for a week. */
export function newForm() {
  const starts = new Date();
  starts.setDate(starts.getDate() + 1);
  starts.setHours(9, 0, 0, 0);
  const ends = new Date(starts);
  ends.setDate(ends.getDate() + 1);
  return {
    name: '', kind: 'percent_off', percent: '20', amount: '', cap: '', minimum: '', currency: 'EUR', total_stock: '1000',
    per_user_limit: '1', max_per_claim: '1', starts: toLocal(starts), ends: toLocal(ends), later: {}, validity: 'for',
    valid_for: { number: '7', unit: 'd' }, valid_from: toLocal(starts), valid_until: toLocal(ends), self_redeem: false,
    stackable: true, claim_mode: 'direct', accept_after: 'topic', hold: { number: '0', unit: 'min' }, lapses_allowed: '0',
    returned_stock: 'resell', issued: 'keep',
  };
}

export function formOf(template) {
  const { discount } = template;
  const first = newForm();
  const isFor = template.valid_for_ms !== undefined;
  const amount = (minor) => (minor === null || minor === undefined || minor === 0 ? '' : plain(minor, discount.currency));
  return {
    ...first, name: template.name, kind: discount.kind, currency: discount.currency, percent: discount.percent_off ?? '',
    amount: amount(discount.amount_off_minor), cap: amount(discount.cap_minor), minimum: amount(discount.minimum_spend_minor),
    total_stock: String(template.total_stock), per_user_limit: String(template.per_user_limit), max_per_claim: String(template.max_per_claim),
    starts: toLocal(template.claim_starts_at), ends: toLocal(template.claim_ends_at), validity: isFor ? 'for' : 'between',
    valid_for: isFor ? toUnit(template.valid_for_ms) : first.valid_for,
    valid_from: isFor ? first.valid_from : toLocal(template.valid_from), valid_until: isFor ? first.valid_until : toLocal(template.valid_until),
    self_redeem: template.self_redeem, stackable: template.stackable, claim_mode: template.claim_mode, accept_after: template.accept_after,
    hold: template.hold_ms ? toUnit(template.hold_ms) : first.hold, lapses_allowed: String(template.lapses_allowed),
    returned_stock: template.returned_stock, later: {
      starts: isLater(template.claim_starts_at), ends: isLater(template.claim_ends_at),
      valid_from: isLater(template.valid_from), valid_until: isLater(template.valid_until),
    },
  };
}

/** Whether an instant is the second of an hour that comes twice. */
function isLater(instant) {
  if (!instant) return false;
  const { either } = readLocal(toLocal(instant));
  return either !== null && new Date(either[1]).getTime() === new Date(instant).getTime();
}

/**
 * Reads the form.
 * @returns {{body: object, wrong: Record<string, string>, notes: Record<string, string[]>}} `notes`: times that come twice
 */
export function bodyOf(form) {
  const wrong = {};
  const twice = {};
  const whole = (name, low, high) => {
    const text = String(form[name]).trim().replace(/[,\s]/g, '');
    const number = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
    if (!(number >= low && number <= high)) wrong[name] = `Use a whole number from ${low} to ${high.toLocaleString('en-GB')}.`;
    return number;
  };
  const instant = (name) => {
    const read = readLocal(form[name], form.later[name]);
    if (read.wrong) wrong[name] = read.wrong;
    if (read.either) twice[name] = read.either;
    return read.instant;
  };
  if (!form.name.trim()) wrong.name = 'Give it a name.';
  const perUser = whole('per_user_limit', 0, 100);
  const body = {
    name: form.name.trim(), discount: discountOf(form, wrong), total_stock: whole('total_stock', 0, 1_000_000_000), per_user_limit: perUser,
    max_per_claim: whole('max_per_claim', 1, 100), claim_starts_at: instant('starts'), claim_ends_at: instant('ends'),
    ...validityOf(form, instant, wrong), self_redeem: form.self_redeem, stackable: form.stackable, claim_mode: form.claim_mode,
    accept_after: form.accept_after, hold_ms: durationOf(form.hold, 'hold', wrong), lapses_allowed: whole('lapses_allowed', 0, 100),
    returned_stock: form.returned_stock,
  };
  if (perUser > 0 && body.max_per_claim > perUser) wrong.max_per_claim = 'It is more than a user may have.';
  if (body.claim_starts_at && body.claim_ends_at && body.claim_starts_at >= body.claim_ends_at) wrong.ends = 'It is not after the begin.';
  return { body, wrong, twice };
}

function discountOf(form, wrong) {
  const { kind, currency } = form;
  const sum = (name, isNeeded) => {
    const { minor, wrong: why } = readMoney(form[name], currency);
    if (why) wrong[name] = why;
    else if (isNeeded && !minor) wrong[name] = 'Say how much.';
    return minor;
  };
  if (!/^[A-Z]{3}$/.test(currency)) wrong.currency = 'Use the three letters of ISO 4217, for example EUR.';
  const discount = { kind, currency, minimum_spend_minor: sum('minimum', false) || 0 };
  if (kind === 'percent_off') {
    const { percent, wrong: why } = readPercent(form.percent);
    if (why) wrong.percent = why;
    return { ...discount, percent_off: percent, cap_minor: sum('cap', false) || null };
  }
  return kind === 'amount_off' ? { ...discount, amount_off_minor: sum('amount', true) } : discount;
}

function validityOf(form, instant, wrong) {
  if (form.validity === 'for') {
    const ms = durationOf(form.valid_for, 'valid_for', wrong);
    if (ms === 0) wrong.valid_for = 'It must be longer than that.';
    return { valid_for_ms: ms };
  }
  const validity = { valid_from: instant('valid_from'), valid_until: instant('valid_until') };
  if (validity.valid_from >= validity.valid_until && !wrong.valid_until) wrong.valid_until = 'It is not after the begin.';
  return validity;
}

function durationOf(typed, name, wrong) {
  const ms = String(typed.number).trim() === '' ? null : fromUnit(typed);
  if (ms === null) wrong[name] = 'Write a number.';
  return ms;
}

/** The fields that differ, as an edit sends them: discount and validity are replaced whole. */
export function editOf(before, after) {
  const same = (name) => JSON.stringify(sorted(before[name])) === JSON.stringify(sorted(after[name]));
  const validity = ['valid_for_ms', 'valid_from', 'valid_until'];
  const edit = {};
  for (const name of Object.keys(after)) {
    if (!validity.includes(name) && name !== 'total_stock' && !same(name)) edit[name] = after[name];
  }
  if (validity.some((name) => !same(name))) {
    for (const name of validity) if (after[name] !== undefined) edit[name] = after[name];
  }
  return edit;
}

function sorted(value) {
  if (value === null || typeof value !== 'object') return value ?? null;
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null && one !== undefined).sort());
}
