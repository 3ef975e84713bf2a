// Operator runs: the first runs in one lane, replays below it, one lane a depth of the chain.

import { Latest } from '../api/client';
import type { Lane, Lanes, Slice } from '../api/types';
import { instant, plural, time } from '../lib/format';
import { timeToX, xToTime, type Window } from '../lib/scale';
import { label } from './theme';
import type { Hit, Hooks, Source, Table, Track, View } from './track';

const ROW = 20;
const BAR = 16;
const REACH = 2;

export class LaneTrack implements Track {
  readonly id = 'operators';
  readonly title = 'Operators';
  readonly hint = 'replays by depth of the chain';
  private data: Lanes | null = null;
  private rows = 1;
  private readonly latest: Latest<Lanes>;

  constructor(private readonly source: Source, deepest: number, hooks: Hooks) {
    this.rows = 1 + Math.min(deepest + 1, 12);
    this.latest = new Latest('lanes', (answer) => {
      this.data = answer;
      hooks.redraw();
    }, hooks.failed);
  }

  height(): number {
    return this.rows * ROW + 4;
  }

  request(window: Window, buckets: number, delay_ms: number): void {
    this.latest.request({ ...this.source, ...window, buckets }, delay_ms);
  }

  stop(): void {
    this.latest.stop();
  }

  private static row(lane: Lane): number {
    return lane.replay ? 1 + (lane.depth ?? 0) : 0;
  }

  draw(ctx: CanvasRenderingContext2D, view: View): void {
    const { width, theme } = view;
    for (let i = 1; i < this.rows; i++) {
      ctx.fillStyle = theme.grid;
      ctx.fillRect(0, i * ROW, width, 1);
    }
    for (const lane of this.data?.lanes ?? []) {
      const y = LaneTrack.row(lane) * ROW + 3;
      for (const slice of lane.slices) this.drawSlice(ctx, view, lane, slice, y);
    }
    for (let i = 0; i < this.rows; i++) {
      const deeper = i === 12 ? ' and deeper' : '';
      const text = i === 0 ? 'first runs' : i === 1 ? 'replays, asked for' : `replays, depth ${i - 1}${deeper}`;
      const lane = this.data?.lanes.find((l) => LaneTrack.row(l) === i);
      if (!lane || lane.slices.every((s) => timeToX(view.window, s[0] + s[1], width) < 4 || timeToX(view.window, s[0], width) > 130))
        label(ctx, theme, text, 6, i * ROW + 11, theme.muted);
    }
  }

  private drawSlice(
    ctx: CanvasRenderingContext2D, view: View, lane: Lane, [t, dur, n, execution, name]: Slice, y: number,
  ): void {
    const { window, width, theme, pick } = view;
    const x0 = timeToX(window, t, width);
    const x1 = timeToX(window, t + dur, width);
    if (x1 < 0 || x0 > width) return;
    const w = Math.max(x1 - x0 - (x1 - x0 > 3 ? 0.5 : 0), 1);
    const chosen = pick?.kind === 'execution' && pick.id === execution;
    ctx.fillStyle = chosen ? theme.pick : lane.replay ? theme.replay : theme.first;
    ctx.globalAlpha = n > 1 ? 0.75 : 1;
    ctx.fillRect(x0, y, w, BAR);
    ctx.globalAlpha = 1;
    if (w < 26) return;
    const left = Math.max(x0, 0) + 4;
    const room = Math.min(x1, width) - left - 4;
    const text = n > 1 ? `${n} runs` : this.data!.names[String(name)] || 'operator';
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - 2, y, Math.max(room + 2, 0), BAR);
    ctx.clip();
    ctx.fillStyle = theme.onBar;
    if (room > 40 || ctx.measureText(text).width <= room) ctx.fillText(text, left, y + BAR / 2 + 0.5);
    ctx.restore();
  }

  hit(x: number, y: number, view: View): Hit | null {
    const row = Math.floor(y / ROW);
    const lane = this.data?.lanes.find((l) => LaneTrack.row(l) === row);
    if (!lane) return null;
    const from = xToTime(view.window, x - REACH, view.width);
    const to = xToTime(view.window, x + REACH, view.width);
    const slice = lane.slices.find(([t, dur]) => t <= to && t + dur >= from);
    if (!slice) return null;
    const [t, dur, n, execution, name] = slice;
    if (execution < 0)
      return {
        title: plural(n, lane.replay ? 'replay' : 'first run'),
        lines: [`${time(dur)} in all, from ${instant(t)}`, 'zoom in to see them one by one'],
        pick: null,
      };
    const title = this.data!.names[String(name)] || 'operator';
    const what = lane.replay ? `replay at depth ${lane.depth}` : 'first run';
    const lines = n > 1
      ? [`${plural(n, 'run')} within this pixel, ${title} the longest`, `${time(dur)} in all`]
      : [what, `took ${time(dur)}`];
    return {
      title: n > 1 ? plural(n, 'operator run') : title,
      lines: [...lines, `at ${instant(t)}`],
      pick: { kind: 'execution', id: execution },
    };
  }

  table(window: Window): Table {
    const all = (this.data?.lanes ?? []).flatMap((lane) =>
      lane.slices.map((slice) => ({ lane, slice })));
    const rows = all
      .filter(({ slice: [t, dur] }) => t + dur >= window.t0 && t <= window.t1)
      .sort((a, b) => a.slice[0] - b.slice[0])
      .slice(0, 200)
      .map(({ lane, slice: [t, dur, n, execution, name] }) => ({
        cells: [
          instant(t), execution < 0 ? 'many' : this.data!.names[String(name)] || 'operator', String(n), time(dur),
          lane.replay ? `replay, depth ${lane.depth}` : 'first run',
        ],
        pick: execution < 0 ? null : { kind: 'execution' as const, id: execution },
      }));
    return {
      caption: 'Operator runs in the window (the first 200)',
      head: ['time', 'operator', 'runs', 'took', 'what'],
      rows,
    };
  }
}
