// The shared time axis, with marks of iterations and phases.

import type { Mark } from '../api/types';
import { axisTime } from '../lib/format';
import { ticks, timeToX } from '../lib/scale';
import type { View } from './track';

export const AXIS_HEIGHT = 36;
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
    ctx.fillText(text, Math.min(Math.max(x - room / 2, 2), width - room - 2), AXIS_HEIGHT - 12);
  }
  drawMarks(ctx, view, marks);
}

/** Names of marks where there is room for them; the tick is always there. */
function drawMarks(ctx: CanvasRenderingContext2D, { window, width, theme }: View, marks: Mark[]): void {
  let free = -Infinity;
  for (const m of marks) {
    const x = timeToX(window, m.t, width);
    if (x < 0 || x > width) continue;
    ctx.fillStyle = theme.muted;
    ctx.fillRect(Math.round(x), 1, 1, 10);
    const text = nameOf(m);
    const room = ctx.measureText(text).width;
    if (x < free || x + room + 6 > width) continue;
    ctx.fillText(text, x + 4, 7);
    free = x + room + 12;
  }
}
