// The shared time axis, with marks of iterations and phases.

import type { Mark } from '../api/types';
import { axisTime } from '../lib/format';
import { ticks, timeToX } from '../lib/scale';
import type { View } from './track';

export const AXIS_HEIGHT = 38;
const MARKS = ['iteration', 'forward', 'backward', 'optimizer', 'begin', 'end', 'start', 'end of run'];

const nameOf = (m: Mark): string =>
  m.name || `${MARKS[m.mark] ?? 'mark'}${m.value === null ? '' : ` ${m.value}`}`;

export function drawAxis(ctx: CanvasRenderingContext2D, view: View, marks: Mark[]): void {
  const { window, width, theme } = view;
  const steps = ticks(window.t0, window.t1, Math.max(2, width / 110));
  const step = (steps[1] ?? 1) - (steps[0] ?? 0);
  ctx.textBaseline = 'middle';
  for (const t of steps) {
    const x = Math.round(timeToX(window, t, width));
    ctx.fillStyle = theme.grid;
    ctx.fillRect(x, AXIS_HEIGHT - 5, 1, 5);
    const text = axisTime(t, step);
    const room = ctx.measureText(text).width;
    ctx.fillStyle = theme.muted;
    ctx.fillText(text, Math.min(Math.max(x - room / 2, 2), width - room - 2), AXIS_HEIGHT - 13);
  }
  drawMarks(ctx, view, marks);
}

/** Every mark has a tick; names where there is room, iterations before phases. */
function drawMarks(ctx: CanvasRenderingContext2D, { window, width, theme }: View, marks: Mark[]): void {
  const placed: [number, number][] = [];
  const visible = marks
    .map((m) => ({ m, x: timeToX(window, m.t, width) }))
    .filter(({ x }) => x >= 0 && x <= width);
  ctx.fillStyle = theme.muted;
  for (const { x } of visible) ctx.fillRect(Math.round(x), 0, 1, 4);
  const iterations = visible.filter(({ m }) => m.mark === 0);
  for (const { m, x } of [...iterations, ...visible.filter(({ m: o }) => o.mark !== 0)]) {
    const text = nameOf(m);
    const end = x + ctx.measureText(text).width + 12;
    if (end > width || placed.some(([from, to]) => x < to && end > from)) continue;
    placed.push([x, end]);
    ctx.fillRect(Math.round(x), 0, 1, 14);
    ctx.fillText(text, x + 4, 10);
  }
}
