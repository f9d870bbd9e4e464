// Files for people: a table that is saved, a list that is dropped.

import { call } from './api.js';

/** Saves a text as a file. */
export function save(name, text, kind = 'text/csv') {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Fetches a list as CSV and saves it. */
export async function saveCsv(name, path) {
  const { body } = await call('GET', path, { accept: 'text/csv', text: true });
  save(name, body);
}

/** A cell that no spreadsheet reads as a formula. */
export function cell(value) {
  const text = value === null || value === undefined ? '' : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(columns, rows) {
  const lines = [columns, ...rows.map((row) => columns.map((column) => row[column]))];
  return `${lines.map((line) => line.map(cell).join(',')).join('\r\n')}\r\n`;
}
