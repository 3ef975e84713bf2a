// Evictions for the budget as ticks, taller where more bytes went; crosses where memory ran out.

import { Latest } from '../api/client';
import type { Evictions, Tick } from '../api/types';
import { bytes, instant, plural } from '../lib/format';
import { timeToX, type Window } from '../lib/scale';
import type { Hit, Hooks, Source, Table, Track, View } from './track';

const HEIGHT = 50;
const REACH = 5; // px around the pointer

export class EvictionTrack implements Track {
  readonly id = 'evictions';
  readonly title = 'Evictions';
  readonly hint = 'click for candidates';
  private data: Evictions | null = null;
  private readonly latest: Latest<Evictions>;

  constructor(private readonly source: Source, hooks: Hooks) {
    this.latest = new Latest('evictions', (answer) => {
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

  draw(ctx: CanvasRenderingContext2D, { window, width, theme, pick }: View): void {
    ctx.fillStyle = theme.grid;
    ctx.fillRect(0, HEIGHT - 5, width, 1);
    const most = Math.max(1, ...(this.data?.ticks ?? []).map((t) => t[2]));
    for (const [t, , size, decision] of this.data?.ticks ?? []) {
      const x = Math.round(timeToX(window, t, width));
      const tall = 9 + 30 * Math.sqrt(size / most);
      const chosen = pick?.kind === 'decision' && pick.id === decision;
      ctx.fillStyle = chosen ? theme.pick : theme.evicted;
      ctx.fillRect(x - (chosen ? 1 : 0.5), HEIGHT - 5 - tall, chosen ? 3 : 1.5, tall);
      ctx.beginPath();
      ctx.moveTo(x - 3.5, HEIGHT - 6);
      ctx.lineTo(x + 3.5, HEIGHT - 6);
      ctx.lineTo(x, HEIGHT - 1);
      ctx.fill();
    }
    ctx.strokeStyle = theme.evicted;
    ctx.lineWidth = 2;
    for (const { t } of this.data?.out_of_memory ?? []) {
      const x = timeToX(window, t, width);
      ctx.strokeRect(x - 4, 3, 8, 8);
    }
    if (this.data && this.data.evictions === 0) {
      ctx.fillStyle = theme.muted;
      ctx.fillText('no eviction for the budget in this window', 8, HEIGHT / 2 - 2);
    }
  }

  private nearest(x: number, { window, width }: View): Tick | null {
    let found: Tick | null = null;
    let distance = REACH;
    for (const tick of this.data?.ticks ?? []) {
      const d = Math.abs(timeToX(window, tick[0], width) - x);
      if (d <= distance) {
        found = tick;
        distance = d;
      }
    }
    return found;
  }

  hit(x: number, _y: number, view: View): Hit | null {
    const out = this.data?.out_of_memory.find(
      (o) => Math.abs(timeToX(view.window, o.t, view.width) - x) <= REACH);
    if (out)
      return {
        title: out.overshoot ? 'Above the budget' : 'Out of memory',
        lines: [`${out.op?.name ?? 'an operator'} needs ${bytes(out.needed)}`,
          `${bytes(out.in_use)} in use, none of it evictable`],
        pick: null,
      };
    const tick = this.nearest(x, view);
    if (!tick) return null;
    const [t, n, size, decision] = tick;
    return {
      title: plural(n, 'eviction'),
      lines: [`${bytes(size)} given back`, `at ${instant(t)}`,
        decision === null ? 'zoom in to see them one by one'
          : n > 1 ? 'click for the largest, zoom in for the others' : 'click for the candidates'],
      pick: decision === null ? null : { kind: 'decision', id: decision },
    };
  }

  table(window: Window): Table {
    const rows = (this.data?.ticks ?? [])
      .filter(([t]) => t >= window.t0 && t <= window.t1)
      .slice(0, 200)
      .map(([t, n, size, decision, storage]) => ({
        cells: [instant(t), String(n), bytes(size), storage < 0 ? 'many' : String(storage)],
        pick: decision === null ? null : { kind: 'decision' as const, id: decision },
      }));
    return {
      caption: 'Evictions in the window',
      head: ['time', 'evictions', 'bytes', 'largest: storage'],
      rows,
    };
  }
}
