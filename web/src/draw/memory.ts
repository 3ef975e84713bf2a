// Memory over time: bytes in use as an area from least to most per pixel, the budget as a line.

import { Latest } from '../api/client';
import type { Memory } from '../api/types';
import { bytes, instant } from '../lib/format';
import { byteTicks, timeToX, xToTime, type Window } from '../lib/scale';
import { label } from './theme';
import type { Hit, Hooks, Source, Table, Track, View } from './track';

const HEIGHT = 168;
const TOP = 16;

export class MemoryTrack implements Track {
  readonly id = 'memory';
  readonly title = 'Memory';
  readonly hint = 'bytes in use';
  private data: Memory | null = null;
  private readonly latest: Latest<Memory>;

  /** `top`: bytes that have to fit in the picture whatever the window shows. */
  constructor(private readonly source: Source, private readonly top: number, hooks: Hooks) {
    this.latest = new Latest('memory', (answer) => {
      this.data = answer;
      hooks.redraw();
    }, hooks.failed);
  }

  height(): number {
    return HEIGHT;
  }

  request(window: Window, buckets: number, delay_ms: number): void {
    this.latest.request({ ...this.source, ...window, buckets }, delay_ms);
  }

  stop(): void {
    this.latest.stop();
  }

  private y(value: number): number {
    return HEIGHT - 1 - (value / (this.top * 1.04)) * (HEIGHT - TOP - 1);
  }

  private budgetAt(t: number): number | null {
    let budget: number | null = null;
    for (const [from, value] of this.data?.budget ?? []) if (from <= t) budget = value;
    return budget;
  }

  draw(ctx: CanvasRenderingContext2D, view: View): void {
    this.drawGrid(ctx, view);
    if (!this.data) return;
    this.drawArea(ctx, view, this.data.max, view.theme.memoryFill, 0.55);
    this.drawArea(ctx, view, this.data.avg, view.theme.memoryFill, 1);
    this.drawLine(ctx, view);
    this.drawTicks(ctx, view);
    this.drawBudget(ctx, view);
  }

  private drawGrid(ctx: CanvasRenderingContext2D, { width, theme }: View): void {
    ctx.fillStyle = theme.grid;
    for (const value of byteTicks(this.top, 5)) ctx.fillRect(0, Math.round(this.y(value)), width, 1);
  }

  /** Where a label would lie on the budget line, the line's own label says as much. */
  private drawTicks(ctx: CanvasRenderingContext2D, { theme, window }: View): void {
    const budget = this.budgetAt(window.t0) ?? this.budgetAt(window.t1);
    for (const value of byteTicks(this.top, 5)) {
      const y = this.y(value) - 7;
      if (value === 0 || (budget !== null && Math.abs(y - this.y(budget)) < 9)) continue;
      label(ctx, theme, bytes(value).replace(/\.0+ /, ' '), 4, y, theme.muted);
    }
  }

  private xs(view: View): (bucket: number) => number {
    const { t0, t1, max } = this.data!;
    const from = timeToX(view.window, t0, view.width);
    const step = (timeToX(view.window, t1, view.width) - from) / max.length;
    return (bucket) => from + bucket * step;
  }

  private drawArea(
    ctx: CanvasRenderingContext2D, view: View, values: number[], fill: string, alpha: number,
  ): void {
    const x = this.xs(view);
    ctx.beginPath();
    ctx.moveTo(x(0), HEIGHT);
    values.forEach((value, i) => {
      ctx.lineTo(x(i), this.y(value));
      ctx.lineTo(x(i + 1), this.y(value));
    });
    ctx.lineTo(x(values.length), HEIGHT);
    ctx.globalAlpha = alpha;
    ctx.fillStyle = fill;
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  private drawLine(ctx: CanvasRenderingContext2D, view: View): void {
    const x = this.xs(view);
    ctx.beginPath();
    this.data!.max.forEach((value, i) => {
      ctx.lineTo(x(i), this.y(value));
      ctx.lineTo(x(i + 1), this.y(value));
    });
    ctx.lineWidth = 1.25;
    ctx.strokeStyle = view.theme.memory;
    ctx.stroke();
  }

  private drawBudget(ctx: CanvasRenderingContext2D, view: View): void {
    const { width, theme, window } = view;
    ctx.strokeStyle = theme.budget;
    ctx.setLineDash([6, 3]);
    ctx.lineWidth = 1.5;
    const list = this.data!.budget;
    list.forEach(([from, value], i) => {
      if (value === null) return;
      const end = list[i + 1]?.[0];
      const x0 = Math.max(0, i === 0 ? 0 : timeToX(window, from, width));
      const x1 = end === undefined ? width : timeToX(window, end, width);
      ctx.beginPath();
      ctx.moveTo(x0, this.y(value));
      ctx.lineTo(x1, this.y(value));
      ctx.stroke();
    });
    ctx.setLineDash([]);
    const last = this.budgetAt(window.t1);
    if (last === null) return;
    const text = `budget ${bytes(last)}`;
    label(ctx, theme, text, width - ctx.measureText(text).width - 6, this.y(last) - 8, theme.budget);
  }

  hit(x: number, _y: number, view: View): Hit | null {
    const d = this.data;
    if (!d) return null;
    const t = xToTime(view.window, x, view.width);
    const i = Math.floor(((t - d.t0) / (d.t1 - d.t0)) * d.max.length);
    const max = d.max[i];
    if (max === undefined) return null;
    const least = d.min[i]!;
    const budget = this.budgetAt(t);
    const lines = [least === max ? bytes(max) : `${bytes(least)} to ${bytes(max)}`];
    if (budget) lines.push(`${((max / budget) * 100).toFixed(1)} % of the budget`);
    if (d.evicted_bytes[i]) lines.push(`${bytes(d.evicted_bytes[i]!)} evicted for the budget`);
    if (d.eager_bytes[i]) lines.push(`${bytes(d.eager_bytes[i]!)} no longer referenced`);
    return { title: 'Memory in use', lines, pick: null };
  }

  table(window: Window): Table {
    const rows: Table['rows'] = [];
    const d = this.data;
    const step = d ? (d.t1 - d.t0) / d.max.length : 0;
    const from = d ? Math.max(0, Math.floor((window.t0 - d.t0) / step)) : 0;
    const to = d ? Math.min(d.max.length, Math.ceil((window.t1 - d.t0) / step)) : 0;
    const stride = Math.max(1, Math.ceil((to - from) / 40));
    for (let i = from; d && i < to; i += stride) {
      const part = (list: number[]): number[] => list.slice(i, Math.min(i + stride, to));
      rows.push({
        cells: [
          instant(d.t0 + i * step), bytes(Math.min(...part(d.min))), bytes(Math.max(...part(d.max))),
          bytes(part(d.evicted_bytes).reduce((a, b) => a + b, 0)),
        ],
        pick: null,
      });
    }
    return { caption: 'Memory in the window', head: ['from', 'least', 'most', 'evicted'], rows };
  }
}
