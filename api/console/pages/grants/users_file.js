// Reads users from a file or a pasted text: a column of numbers, or a table with a column `user_id`. Pure.

/** Most users of one job. */
export const ROWS_MAX = 50_000;

const NUMBER = /^\d{1,19}$/;
const NAMES = ['user_id', 'user', 'userid', 'id'];

/**
 * @returns {{rows: {given: string, isNumber: boolean}[], odd: number, twice: number, gets: number}}
 * `gets`: users who get something, each once
 */
export function readUsers(text) {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/).filter((line) => line.trim());
  if (lines.length === 0) return { rows: [], odd: 0, twice: 0, gets: 0 };
  const separator = lines[0].includes(';') && !lines[0].includes(',') ? ';' : lines[0].includes('\t') ? '\t' : ',';
  const first = cells(lines[0], separator).map((name) => name.toLowerCase());
  const named = NAMES.map((name) => first.indexOf(name)).find((at) => at >= 0);
  const column = named ?? 0;
  // Words above numbers are a head whatever they are; words above words are users that are none, and are shown as such.
  const isOverNumbers = lines.length > 1 && !NUMBER.test(first[0]) && NUMBER.test(cells(lines[1], separator)[0]);
  const hasHead = named !== undefined || isOverNumbers;
  const body = hasHead ? lines.slice(1) : lines;
  const rows = body.map((line) => {
    const given = (cells(line, separator)[column] ?? '').slice(0, 64);
    return { given, isNumber: NUMBER.test(given) };
  });
  const numbers = rows.filter((row) => row.isNumber).map((row) => row.given);
  const gets = new Set(numbers).size;
  return { rows, odd: rows.length - numbers.length, twice: numbers.length - gets, gets };
}

/** Splits a line of a table; quotes may enclose a cell. */
function cells(line, separator) {
  const found = [];
  let cell = '';
  let isQuoted = false;
  for (let at = 0; at < line.length; at += 1) {
    const one = line[at];
    if (one === '"' && isQuoted && line[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (one === '"') isQuoted = !isQuoted;
    else if (one === separator && !isQuoted) {
      found.push(cell.trim());
      cell = '';
    } else cell += one;
  }
  return [...found, cell.trim()];
}
