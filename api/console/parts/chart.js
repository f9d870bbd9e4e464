// Lines over time, by the vendored uPlot. It draws on a canvas; a table with the same figures is beside it for those who
// cannot see it.

import { html, useEffect, useRef } from '../core/view.js';
import { time } from '../core/times.js';

const HEIGHT = 220;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Room for the number of a mark, in CSS pixels: marks that are nearer to each other share a line. */
const MARK_WIDTH = 28;

/** The marks within a plot, by their place; those that are too near to each other are one. */
function groups(plot, list, near) {
  const found = [];
  list.forEach((mark, at) => {
    const x = Math.round(plot.valToPos(mark.at, 'x', true));
    if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) return;
    const before = found[found.length - 1];
    if (before && x - before.x < near) before.last = at + 1;
    else found.push({ x, first: at + 1, last: at + 1 });
  });
  return found;
}

/** Places of values with nothing beside them: a line does not show those, a point does. */
function alone(plot, series) {
  const values = plot.data[series];
  const has = (at) => values[at] !== null && values[at] !== undefined;
  return [...values.keys()].filter((at) => has(at) && !has(at - 1) && !has(at + 1));
}

/** Thin lines that mark moments, with a number each. */
function marks(list) {
  return {
    hooks: {
      draw: (plot) => {
        const { ctx } = plot;
        const scale = devicePixelRatio || 1;
        ctx.save();
        ctx.strokeStyle = colour('--accent');
        ctx.fillStyle = colour('--accent');
        ctx.font = `600 ${12 * scale}px system-ui, sans-serif`;
        for (const { x, first, last } of groups(plot, list(), MARK_WIDTH * scale)) {
          ctx.setLineDash([4 * scale, 3 * scale]);
          ctx.beginPath();
          ctx.moveTo(x, plot.bbox.top);
          ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
          ctx.stroke();
          const number = first === last ? String(first) : `${first}–${last}`;
          // Beside the line, on the side where there is room.
          const isAtEnd = x + MARK_WIDTH * scale > plot.bbox.left + plot.bbox.width;
          ctx.textAlign = isAtEnd ? 'right' : 'left';
          ctx.fillText(number, x + (isAtEnd ? -5 : 5) * scale, plot.bbox.top + 11 * scale);
        }
        ctx.restore();
      },
    },
  };
}

/** A span of more than this is marked by days, in seconds. */
const DAYS = 2 * 86_400;

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const seconds = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dates = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

function hours(plot, splits, axis, space, step) {
  const span = plot.scales.x.max - plot.scales.x.min;
  const format = span > DAYS ? dates : step < 60 ? seconds : clock;
  return splits.map((at) => format.format(at * 1000));
}

function options(width, height, lines, list, zoomed, unit) {
  const axis = { stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), width: 1 } };
  const series = lines.map((line) => ({
    label: line.name, stroke: colour(line.colour), width: 2, spanGaps: false,
    fill: line.filled ? `${colour(line.colour)}22` : undefined, points: { show: true, size: 5, filter: alone },
    value: (_, value) => (value === null || value === undefined ? '—' : `${value} ${line.unit || unit || ''}`),
  }));
  return {
    width, height, legend: { live: true }, plugins: [marks(list)],
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, values: hours, space: 70 }, { ...axis, size: 56 }],
    series: [{ label: 'Time', value: (_, at) => (at ? time(at * 1000, 'clock') : '—') }, ...series],
    cursor: { drag: { x: true, y: false, setScale: !zoomed } },
    hooks: zoomed ? { setSelect: [(plot) => chosen(plot, zoomed)] } : {},
  };
}

function chosen(plot, zoomed) {
  const { left, width } = plot.select;
  if (width < 8) return;
  const from = plot.posToVal(left, 'x');
  const to = plot.posToVal(left + width, 'x');
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  zoomed(from, to);
}

/**
 * @param {{columns: number[][], lines: {name: string, colour: string, filled?: boolean, unit?: string}[],
 *   moments?: {at: number, text: string}[], zoomed?: (from: number, to: number) => void, unit?: string, label: string}} props
 * `columns`: seconds, then a column for each line; null leaves a gap. `zoomed` is told the span that was dragged over.
 */
export function Chart({ columns, lines, moments = [], zoomed, unit, label, height = HEIGHT }) {
  const place = useRef(null);
  const plot = useRef(null);
  const newest = useRef(moments);
  newest.current = moments;
  const tell = useRef(zoomed);
  tell.current = zoomed;
  const shape = lines.map((line) => line.name + line.colour).join();
  useEffect(() => {
    const made = () => {
      if (plot.current) plot.current.destroy();
      const width = place.current.clientWidth || 320;
      const tells = zoomed ? (from, to) => tell.current(from, to) : null;
      const drawn = options(width, height, lines, () => newest.current, tells, unit);
      plot.current = new window.uPlot(drawn, columns, place.current);
    };
    made();
    const resized = new ResizeObserver(() => plot.current && plot.current.setSize({ width: place.current.clientWidth, height }));
    resized.observe(place.current);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', made);
    addEventListener('theme', made);
    return () => {
      resized.disconnect();
      dark.removeEventListener('change', made);
      removeEventListener('theme', made);
      plot.current.destroy();
      plot.current = null;
    };
  }, [shape, height]);
  useEffect(() => {
    if (plot.current) plot.current.setData(columns);
  }, [columns, moments]);
  return html`<div class="chart" role="img" aria-label=${label} ref=${place}></div>`;
}

/** A line of a few pixels, without axes. */
export function Spark({ values, label }) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const most = Math.max(1, ...known);
  const step = 100 / (values.length - 1);
  const points = values.map((value, at) => (value === null ? null : `${(at * step).toFixed(1)},${(23 - (22 * value) / most).toFixed(1)}`));
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${label}>
    <polyline points=${points.filter(Boolean).join(' ')} />
  </svg>`;
}
