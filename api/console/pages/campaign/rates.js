// Claims over time: the last minutes live, a second at a time, or any span by zoom, with marks where operators acted.

import { html, useMemo, useState } from '../../core/view.js';
import { pathOf } from '../../calls/calls.js';
import { historyOf, useLive } from '../../core/live.js';
import { useLoad } from '../../core/load.js';
import { duration, time } from '../../core/times.js';
import { Chart } from '../../parts/chart.js';
import { Empty, Read } from '../../parts/problem.js';
import { actionInWords } from '../record/record_list.js';

const LIVE_LINES = [{ name: 'Coupons a second', colour: '--accent', filled: true }];
const RATE_LINES = [{ name: 'Landed', colour: '--good-line', filled: true }, { name: 'Refused', colour: '--muted' }];
/** Only where there is one: a red line along the bottom looks like an alarm. */
const UNDECIDED = { name: 'Undecided', colour: '--bad-line' };
const WAIT_LINES = [{ name: 'Half within', colour: '--accent', unit: 'ms' }, { name: '99 of 100 within', colour: '--warn-line', unit: 'ms' }];

export function Rates({ sale }) {
  const [mode, choose] = useState('history');
  const [span, setSpan] = useState(null);
  return html`<section class="panel" aria-label="Claims over time">
    <header class="panel-head"><h2>Claims over time</h2>
      <div class="switch" role="group" aria-label="Span">
        <button aria-pressed=${mode === 'live'} onClick=${() => choose('live')}>Last minutes</button>
        <button aria-pressed=${mode === 'history'} onClick=${() => choose('history')}>Whole sale</button>
      </div>
      ${mode === 'history' && span && html`<button class="link" onClick=${() => setSpan(null)}>Show all again</button>`}
    </header>
    ${mode === 'live' ? html`<${LiveRates} id=${sale.id} />` : html`<${History} sale=${sale} span=${span} zoomed=${setSpan} />`}
  </section>`;
}

function LiveRates({ id }) {
  const { sample } = useLive();
  const columns = useMemo(() => {
    const rows = historyOf(id);
    return [rows.map((row) => row.at), rows.map((row) => row.rate)];
  }, [sample]);
  if (columns[0].length < 2) return html`<${Empty} title="Nothing to draw yet">The stream has had this sale for less than two seconds, or it is not open.<//>`;
  return html`<${Chart} columns=${columns} lines=${LIVE_LINES} unit="/s" label="Coupons a second in the last minutes" />`;
}

function History({ sale, span, zoomed }) {
  const asked = span ? { from: span.from, to: span.to } : {};
  const series = useLoad(pathOf('get_timeseries', { id: sale.id }, asked), span ? 0 : 15_000);
  const audit = useLoad(pathOf('list_audit', {}, { target: `templates/${sale.id}`, limit: 50 }));
  const zoom = (from, to) => zoomed({ from: instant(Math.floor(from)), to: instant(Math.ceil(Math.max(to, from + 10))) });
  return html`<${Read} of=${series}>${(data) => html`<${Drawn} data=${data} audit=${audit.data} zoom=${zoom} isOver=${sale.state === 'ended'} />`}<//>`;
}

function Drawn({ data, audit, zoom, isOver }) {
  const { rates, lines, waits } = useMemo(() => columnsOf(data), [data]);
  const moments = useMemo(() => momentsOf(rates[0], data, audit), [rates, audit]);
  if (rates[0].length === 0) {
    return html`<${Empty} title=${isOver ? 'Nobody claimed' : 'Nobody has claimed yet'}>The line begins with the first claim; grants are none.<//>`;
  }
  const isOfDays = rates[0][rates[0].length - 1] - rates[0][0] > 86_400;
  return html`
    ${!data.complete && html`<div class="note warn">Not all of this span could be read: the counts are too low.</div>`}
    <h3>Answers a second</h3>
    <${Chart} columns=${rates} lines=${lines} moments=${moments} zoomed=${zoom} unit="/s" label="Answers to claims a second" />
    <h3>How long answers took, in milliseconds</h3>
    <${Chart} columns=${waits} lines=${WAIT_LINES} moments=${moments} zoomed=${zoom} label="How long answers took, in milliseconds" height=${160} />
    <p class="help">Drag over a span to look closer. Each step is ${duration(data.step_seconds * 1000)}.</p>
    ${moments.length > 0 && html`<ol class="moments">${moments.map((moment) => html`<li key=${moment.id}>
      <span>${time(moment.at * 1000, isOfDays ? 'minute' : 'clock')}</span> ${moment.text}</li>`)}</ol>`}`;
}

const sum = (counts) => Object.values(counts).reduce((all, one) => all + one, 0);

function columnsOf({ points: all, step_seconds: step }) {
  // The span begins an hour before the sale, for those who came early; if nobody did, it begins with the first answer.
  const first = all.findIndex((p) => p.landed + p.accepted + sum(p.refused) + sum(p.unknown) > 0);
  const points = first < 0 ? [] : all.slice(Math.max(0, first - 1));
  // A point stands for its whole step: it is drawn in the middle.
  const at = points.map((point) => Date.parse(point.at) / 1000 + step / 2);
  // Few answers in a long step are few, and not none.
  const each = (value) => Number((value / step).toPrecision(3));
  const rates = [at, points.map((p) => each(p.landed + p.accepted)), points.map((p) => each(sum(p.refused)))];
  const lines = [...RATE_LINES];
  if (points.some((p) => sum(p.unknown) > 0)) {
    rates.push(points.map((p) => each(sum(p.unknown))));
    lines.push(UNDECIDED);
  }
  return { rates, lines, waits: [at, points.map((p) => p.p50_ms), points.map((p) => p.p99_ms)] };
}

/** What operators did within what is drawn, the earliest first. */
function momentsOf(drawn, { to }, audit) {
  const rows = ((audit && audit.data) || []).map((row) => ({ ...row, second: Date.parse(row.at) / 1000 }));
  const within = rows.filter((row) => row.second >= drawn[0] && row.at < to);
  return within.reverse().map((row) => ({ id: row.id, at: row.second, text: `${actionInWords(row.action)}, by ${row.key_name || 'platform'}` }));
}

function instant(seconds) {
  return new Date(seconds * 1000).toISOString();
}
