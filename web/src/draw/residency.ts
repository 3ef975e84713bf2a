// Residency: a row a storage, a bar while its bytes are in memory; bars of another colour, and thicker, were re-made.

import { ApiError, Latest } from '../api/client';
import type { Residency, StorageRow } from '../api/types';
import { bytes, count, instant, plural, time } from '../lib/format';
import { timeToX, xToTime, type Window } from '../lib/scale';
import type { Hit, Hooks, Source, Table, Track, View } from './track';

const SIZES = { few: 11, many: 5 };

function madeBy(row: StorageRow): string {
  if (row.op) return `made by ${row.op.name || 'operator'} (${row.op.op})`;
  return row.before ? 'made before recording began' : 'a constant';
}

export class ResidencyTrack implements Track {
  readonly id = 'residency';
  readonly title = 'Residency';
  readonly hint = 'a row a storage';
  data: Residency | null = null;
  private tooMany = false; // events in the window to tell storages apart
  sort = 'created';
  offset = 0;
  static readonly PAGE = 80;
  private readonly latest: Latest<Residency>;

  constructor(private readonly source: Source, private readonly hooks: Hooks, changed: () => void) {
    this.latest = new Latest('residency', (answer) => {
      this.data = answer;
      this.tooMany = false;
      changed();
      this.hooks.redraw();
    }, (error) => {
      if (!(error instanceof ApiError) || error.code !== 413) return hooks.failed(error);
      this.data = null;
      this.tooMany = true;
      changed();
      this.hooks.redraw();
    });
  }

  private pitch(): number {
    return (this.data?.rows.length ?? 0) > 40 ? SIZES.many : SIZES.few;
  }

  height(): number {
    return Math.max(this.data?.rows.length ?? (this.tooMany ? 0 : ResidencyTrack.PAGE), 4) * this.pitch() + 6;
  }

  request(window: Window, buckets: number, delay_ms: number): void {
    this.latest.request({
      ...this.source, ...window, buckets: Math.min(buckets, 1000), sort: this.sort,
      offset: this.offset, limit: ResidencyTrack.PAGE,
    }, delay_ms);
  }

  stop(): void {
    this.latest.stop();
  }

  draw(ctx: CanvasRenderingContext2D, { window, width, theme, pick }: View): void {
    const pitch = this.pitch();
    const thick = pitch > 8 ? pitch - 3 : pitch - 1;
    this.data?.rows.forEach((row, i) => {
      const y = 3 + i * pitch;
      const chosen = pick?.kind === 'storage' && pick.id === row.storage;
      if (chosen || i % 10 === 0) {
        ctx.fillStyle = theme.grid;
        ctx.fillRect(0, y - 1, width, chosen ? pitch + 1 : 1);
      }
      for (const [begin, end, , first] of row.bars) {
        const x0 = timeToX(window, begin, width);
        const x1 = timeToX(window, end, width);
        if (x1 < 0 || x0 > width) continue;
        ctx.fillStyle = chosen ? theme.pick : first > 0 ? theme.replay : theme.resident;
        ctx.fillRect(x0, y + (first > 0 ? 0 : 0.5), Math.max(x1 - x0, 1), first > 0 ? thick : thick - 0.5);
      }
    });
    if (this.tooMany) {
      ctx.fillStyle = theme.muted;
      ctx.fillText('too many events in this window to show storages: zoom in', 8, 12);
    }
    if (this.data && this.data.rows.length === 0) {
      ctx.fillStyle = theme.muted;
      ctx.fillText('this run has no storage that owns bytes', 8, 12);
    }
  }

  private rowAt(y: number): StorageRow | null {
    return this.data?.rows[Math.floor((y - 3) / this.pitch())] ?? null;
  }

  hit(x: number, y: number, view: View): Hit | null {
    const row = this.rowAt(y);
    if (!row) return null;
    const t = xToTime(view.window, x, view.width);
    const bar = row.bars.find(([begin, end]) => begin <= t && t <= end);
    const lines = [madeBy(row)];
    if (row.before && row.op) lines.push('allocated before recording began');
    lines.push(bar ? `resident from ${instant(bar[0])} to ${instant(bar[1])}` : 'not resident here');
    if (bar && bar[2] > 1) lines.push(`${plural(bar[2], 'stay')} within these pixels`);
    if (row.remakes) lines.push(`re-made ${plural(row.remakes, 'time')}, ${time(row.remake_ns)} in all`);
    return {
      title: `storage ${row.storage}, ${bytes(row.bytes)}`,
      lines,
      pick: { kind: 'storage', id: row.storage },
    };
  }

  table(): Table {
    return {
      caption: 'Storages shown',
      head: ['storage', 'made by', 'bytes', 're-made', 'cost of that'],
      rows: (this.data?.rows ?? []).map((row) => ({
        cells: [
          String(row.storage), row.op?.name || (row.op ? 'operator' : row.before ? 'before recording' : 'constant'),
          bytes(row.bytes),
          count(row.remakes), time(row.remake_ns),
        ],
        pick: { kind: 'storage' as const, id: row.storage },
      })),
    };
  }
}
