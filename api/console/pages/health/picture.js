// The way of a claim as a picture: each station with its state, and its lag where it has one.

import { html } from '../../core/view.js';
import { useLive } from '../../core/live.js';
import { isKnown, rate } from '../../core/numbers.js';
import { Unknown } from '../../parts/figure.js';

/** The stations, in the order of a claim's way, with who reports on each: processes by name, servers by the parts of those. */
const STATIONS = [
  { name: 'Api', processes: ['api'], rate: true }, { name: 'Gate', servers: ['gate'] }, { name: 'MySQL', servers: ['mysql'] },
  { name: 'Queue', processes: ['outbox-relay', 'claim-lander'] }, { name: 'Binlog', processes: ['cdc-tailer'], lag: 'publish_lag_seconds' },
  { name: 'Topic', servers: ['kafka', 'topic'] }, { name: 'List', processes: ['sync-consumer'], servers: ['view'], lag: 'list_lag_seconds' },
  { name: 'Expiry', processes: ['expiry-worker'] },
];

const WORST = ['well', 'unknown', 'degraded', 'down'];
const WORDS = { well: 'works', unknown: 'not known', degraded: 'degraded', down: 'down' };

/** Coupons a second of all sales that the stream has; null if one is not known. */
function speed(sample) {
  const rates = ((sample && sample.templates) || []).map((sale) => sale.given_per_second);
  return sample && rates.every(isKnown) ? rates.reduce((sum, one) => sum + one, 0) : null;
}

export function Picture({ health }) {
  const live = useLive();
  const claims = live.isStale ? null : speed(live.sample);
  return html`<section class="panel" aria-label="The way of a claim">
    <ol class="stations">
      ${STATIONS.map((station) => html`<${Station} key=${station.name} station=${station} health=${health} claims=${claims} />`)}
    </ol>
  </section>`;
}

function Station({ station, health, claims }) {
  const state = stateOf(station, health.processes);
  const lag = station.lag && health[station.lag];
  return html`<li class="station ${state}">
    <span class="station-dot" aria-hidden="true"></span>
    <b>${station.name}</b>
    <span class="small">${WORDS[state]}</span>
    ${station.rate && html`<span class="small">${isKnown(claims) ? `${rate(claims)} coupons/s` : html`<${Unknown} text="rate not known" />`}</span>`}
    ${station.lag && html`<span class="small">${isKnown(lag) ? `${lag.toFixed(1)} s behind` : html`<${Unknown} text="lag not known" />`}</span>`}
    ${station.lag === 'publish_lag_seconds' && html`<span class="small muted">${health.leader ? `leader ${health.leader}` : 'no leader known'}</span>`}
  </li>`;
}

/** The best process of each kind decides, since one is enough; of a server the worst that a process says. */
export function stateOf({ processes = [], servers = [] }, all) {
  const states = [];
  for (const name of processes) {
    const mine = all.filter((one) => one.process === name).map(own);
    if (mine.length > 0) states.push(mine.reduce((a, b) => (WORST.indexOf(a) <= WORST.indexOf(b) ? a : b)));
  }
  for (const name of servers) {
    const said = all.flatMap((one) => partsOf(one).filter((part) => part.name.toLowerCase().includes(name))).map((part) => (part.ready ? 'well' : 'down'));
    if (said.length > 0) states.push(said.includes('down') ? (said.includes('well') ? 'degraded' : 'down') : 'well');
  }
  if (states.length === 0) return 'unknown';
  return states.reduce((a, b) => (WORST.indexOf(a) >= WORST.indexOf(b) ? a : b));
}

function own(one) {
  return { ready: 'well', degraded: 'degraded', 'not ready': 'down', 'no answer': 'down' }[one.status] || 'unknown';
}

/** The parts of a process, by name; a process that does not answer has none. */
export function partsOf(one) {
  return Object.entries(one.parts || {}).map(([name, part]) => ({ name, ...part, ready: part.up === true }));
}
