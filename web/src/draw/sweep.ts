// Slowdown against budget: a line a heuristic, failures as marks in a band above.

import type { Trace } from '../lib/sweep';
import { ticks } from '../lib/scale';
import { label, prepare, type Theme } from './theme';

export const PLOT = { left: 46, right: 110, top: 14, bottom: 34, height: 360, row: 13 };

// Eight hues, told apart also by people who do not see all of them; each round of eight has its own
// dash, so that a line is known without its colour.
const LIGHT = ['#1f66b0', '#d1660a', '#0f8a6d', '#b3263a', '#7a3fb5', '#8a6d00', '#c2408f', '#4b5563'];
const DARK = ['#6aaef2', '#f59a4c', '#4cc9a6', '#f0717f', '#b996f2', '#d9b93c', '#f08cc4', '#a7b0bb'];
const DASHES = [[], [7, 3], [2, 2.5]];

export const lineColour = (i: number, dark: boolean): string =>
  (dark ? DARK : LIGHT)[i % LIGHT.length]!;

export interface SweepPicture {
  x(share: number): number;
  y(slowdown: number): number;
  height: number;
}

export function layout(trace: Trace, shown: Set<string>, width: number): SweepPicture {
  const failed = trace.lines.filter((l) => shown.has(l.heuristic) && l.points.some((p) => p.slowdown === null));
  const band = failed.length * PLOT.row + (failed.length ? 22 : 0);
  const values = trace.lines.filter((l) => shown.has(l.heuristic)).flatMap((l) => l.points.map((p) => p.slowdown ?? 1));
  const most = Math.min(Math.max(1.05, ...values), 12) * 1.02;
  const lo = trace.budgets[0] ?? 0;
  const hi = trace.budgets[trace.budgets.length - 1] ?? 1;
  const pad = (hi - lo || 1) * 0.03;
  const top = PLOT.top + band;
  const bottom = PLOT.top + band + PLOT.height;
  return {
    x: (s) => PLOT.left + ((s - lo + pad) / (hi - lo + 2 * pad)) * (width - PLOT.left - PLOT.right),
    y: (v) => bottom - ((Math.min(v, most) - 1) / (most - 1)) * (bottom - top),
    height: bottom + PLOT.bottom,
  };
}

export function drawSweep(
  canvas: HTMLCanvasElement, trace: Trace, shown: Set<string>, width: number, theme: Theme,
  dark: boolean, strong: string | null,
): SweepPicture {
  const picture = layout(trace, shown, width);
  const ctx = prepare(canvas, width, picture.height);
  drawAxes(ctx, trace, picture, width, theme);
  drawFailures(ctx, trace, shown, picture, theme, dark, width);
  trace.lines.forEach((line, i) => {
    if (!shown.has(line.heuristic)) return;
    ctx.globalAlpha = strong && strong !== line.heuristic ? 0.25 : 1;
    ctx.strokeStyle = ctx.fillStyle = lineColour(i, dark);
    ctx.lineWidth = strong === line.heuristic ? 3 : 1.75;
    ctx.setLineDash(DASHES[Math.floor(i / LIGHT.length) % DASHES.length]!);
    ctx.beginPath();
    let open = false; // a budget that failed breaks the line: nothing is known between
    for (const p of line.points) {
      if (p.slowdown === null) open = false;
      else if (open) ctx.lineTo(picture.x(p.share), picture.y(p.slowdown));
      else {
        ctx.moveTo(picture.x(p.share), picture.y(p.slowdown));
        open = true;
      }
    }
    ctx.stroke();
    ctx.setLineDash([]);
    for (const p of line.points)
      if (p.slowdown !== null) {
        ctx.beginPath();
        ctx.arc(picture.x(p.share), picture.y(p.slowdown), 2.75, 0, 7);
        ctx.fill();
      }
    ctx.globalAlpha = 1;
  });
  return picture;
}

function drawAxes(ctx: CanvasRenderingContext2D, trace: Trace, p: SweepPicture, width: number, theme: Theme): void {
  const bottom = p.y(1);
  const lo = trace.budgets[0] ?? 0;
  const hi = trace.budgets[trace.budgets.length - 1] ?? 1;
  let most = 1;
  while (p.y(most + 0.05) < p.y(most) - 0.01) most += 0.05;
  for (const v of ticks(1, most, 6)) {
    ctx.fillStyle = theme.grid;
    ctx.fillRect(PLOT.left, Math.round(p.y(v)), width - PLOT.left - PLOT.right, 1);
    ctx.fillStyle = theme.muted;
    ctx.textAlign = 'right';
    ctx.fillText(`${Number(v.toFixed(3))}×`, PLOT.left - 8, p.y(v));
  }
  ctx.textAlign = 'center';
  for (const s of ticks(lo * 100, hi * 100, Math.max(2, width / 110))) {
    ctx.fillStyle = theme.grid;
    ctx.fillRect(Math.round(p.x(s / 100)), bottom, 1, 5);
    ctx.fillStyle = theme.muted;
    ctx.fillText(`${Number(s.toFixed(2))} %`, p.x(s / 100), bottom + 14);
  }
  ctx.textAlign = 'left';
}

/** One row a heuristic that failed somewhere: squares for out of memory, crosses for thrashing. */
function drawFailures(
  ctx: CanvasRenderingContext2D, trace: Trace, shown: Set<string>, p: SweepPicture, theme: Theme,
  dark: boolean, width: number,
): void {
  let y = PLOT.top;
  trace.lines.forEach((line, i) => {
    if (!shown.has(line.heuristic) || line.points.every((q) => q.slowdown !== null)) return;
    const colour = lineColour(i, dark);
    ctx.fillStyle = theme.grid;
    ctx.fillRect(PLOT.left, Math.round(y), width - PLOT.left - PLOT.right, 1);
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = 1.5;
    for (const q of line.points) {
      if (q.slowdown !== null) continue;
      const x = p.x(q.share);
      if (q.source.result === 'out_of_memory') ctx.fillRect(x - 3.5, y - 3.5, 7, 7);
      else {
        ctx.beginPath();
        ctx.moveTo(x - 3.5, y - 3.5);
        ctx.lineTo(x + 3.5, y + 3.5);
        ctx.moveTo(x + 3.5, y - 3.5);
        ctx.lineTo(x - 3.5, y + 3.5);
        ctx.stroke();
      }
    }
    label(ctx, theme, line.heuristic, width - PLOT.right + 8, y, colour);
    y += PLOT.row;
  });
}
