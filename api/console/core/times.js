// Instants in the reader's own time, always with the zone. The api speaks UTC.

const day = { year: 'numeric', month: 'short', day: 'numeric' };
const zone = { timeZoneName: 'short' };
const formats = {
  full: new Intl.DateTimeFormat('en-GB', { ...day, hour: '2-digit', minute: '2-digit', second: '2-digit', ...zone }),
  minute: new Intl.DateTimeFormat('en-GB', { ...day, hour: '2-digit', minute: '2-digit', ...zone }),
  clock: new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', ...zone }),
  millis: new Intl.DateTimeFormat('en-GB', {
    hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
  }),
};

export const zoneName = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Writes an instant: `27 Nov 2026, 09:00:00 CET`. */
export function time(instant, format = 'full') {
  return instant ? formats[format].format(new Date(instant)) : '—';
}

/** A sentence of the api with its instants in the reader's time. */
export function inLocalTime(sentence) {
  return sentence.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (instant) => time(instant));
}

/** Writes a duration: `2 d 3 h`, `12 min 4 s`, `4.2 s`. */
export function duration(ms) {
  if (ms === null || ms === undefined) return 'not known';
  const sign = ms < 0 ? '−' : '';
  const left = Math.abs(ms);
  if (left < 1_000) return `${sign}${Math.round(left)} ms`;
  if (left < 10_000) return `${sign}${(left / 1_000).toFixed(1)} s`;
  const seconds = Math.floor(left / 1_000);
  const units = [[86_400, 'd'], [3_600, 'h'], [60, 'min'], [1, 's']];
  const first = units.findIndex(([size]) => seconds >= size);
  const parts = units.slice(first, first + 2).map(([size, name], at) => {
    const above = at === 0 ? seconds : seconds % units[first][0];
    return [Math.floor(above / size), name];
  });
  return sign + parts.filter(([n]) => n > 0).map(([n, name]) => `${n} ${name}`).join(' ');
}

/** Writes an age: `12 s ago`. */
export function ago(ms) {
  return ms < 60_000 ? `${Math.floor(ms / 1_000)} s ago` : `${duration(ms)} ago`;
}

function twoDigits(number) {
  return String(number).padStart(2, '0');
}

/** The value of a `datetime-local` input for an instant, in the reader's time. */
export function toLocal(instant) {
  if (!instant) return '';
  const at = new Date(instant);
  const date = `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())}`;
  return `${date}T${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}:${twoDigits(at.getSeconds())}`;
}

/**
 * Reads a `datetime-local` value in the reader's time.
 * A clock that is set back shows an hour twice: then `either` has both instants. One that is set forward leaves an hour
 * out: then `wrong` says so, since the browser would silently take another.
 * @returns {{instant: string|null, either: string[]|null, wrong: string|null}}
 */
export function readLocal(value, prefersLater = false) {
  if (!value) return { instant: null, either: null, wrong: 'Choose a date and a time.' };
  const at = new Date(value);
  if (Number.isNaN(at.getTime())) return { instant: null, either: null, wrong: 'This is no date and time.' };
  const typed = value.length === 16 ? `${value}:00` : value.slice(0, 19);
  if (toLocal(at) !== typed) {
    return { instant: null, either: null, wrong: 'The clocks are set forward then: this hour does not exist here.' };
  }
  const same = [-2, -1, -0.5, 0, 0.5, 1, 2]
    .map((hours) => new Date(at.getTime() + hours * 3_600_000))
    .filter((other) => toLocal(other) === typed)
    .map((other) => other.toISOString());
  const either = same.length > 1 ? [same[0], same[same.length - 1]] : null;
  const instant = either ? either[prefersLater ? 1 : 0] : same[0];
  return { instant, either, wrong: null };
}

/** The offset from UTC of an instant here: `UTC+1`. */
export function offset(instant) {
  const minutes = -new Date(instant).getTimezoneOffset();
  const sign = minutes < 0 ? '−' : '+';
  const hours = Math.floor(Math.abs(minutes) / 60);
  const rest = Math.abs(minutes) % 60;
  return `UTC${sign}${hours}${rest ? `:${twoDigits(rest)}` : ''}`;
}

/** Durations that people type: `7 d`, `36 h`, `10 min`, `30 s`. */
const UNITS = { s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** Splits milliseconds into the largest unit that has no rest. */
export function toUnit(ms) {
  for (const unit of ['d', 'h', 'min', 's']) {
    if (ms && ms % UNITS[unit] === 0) return { number: String(ms / UNITS[unit]), unit };
  }
  return { number: ms ? String(ms / 1_000) : '0', unit: 's' };
}

export function fromUnit({ number, unit }) {
  const ms = Number(number) * UNITS[unit];
  return Number.isFinite(ms) && ms >= 0 ? Math.round(ms) : null;
}
