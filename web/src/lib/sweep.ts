// From the points of a sweep to what the chart and the table show.  Pure.

import type { SweepPoint } from '../api/types';

export interface Trace {
  key: string;
  name: string;
  lines: Line[];
  budgets: number[];
}

export interface Line {
  heuristic: string;
  points: Point[];
}

export interface Point {
  share: number; // of the unlimited peak
  slowdown: number | null; // null unless the run finished
  source: SweepPoint;
}

/** The heuristics of the paper first, in its order, then all others by name. */
export const PUBLISHED = ['dtr', 'dtr-eq', 'dtr-local', 'lru', 'msps', 'size', 'random', 'dtr-nbhd-stale'];

function order(a: string, b: string): number {
  const place = (name: string): number => (PUBLISHED.indexOf(name) + 1 || PUBLISHED.length + 1);
  return place(a) - place(b) || (a < b ? -1 : 1);
}

const baseName = (path: string): string => path.split('/').pop() ?? path;

/** One chart a trace and policy, lines by name, points by budget. */
export function group(points: SweepPoint[]): Trace[] {
  const traces = new Map<string, Trace>();
  for (const p of points) {
    if (!p.budget_bytes || !p.unlimited_peak_bytes) continue;
    const key = `${p.trace_hash} ${p.deallocation}`;
    let trace = traces.get(key);
    if (!trace) {
      trace = { key, name: `${baseName(p.trace ?? 'trace')}, ${p.deallocation}`, lines: [], budgets: [] };
      traces.set(key, trace);
    }
    const share = p.budget_share ?? p.budget_bytes / p.unlimited_peak_bytes;
    let line = trace.lines.find((l) => l.heuristic === p.heuristic);
    if (!line) trace.lines.push((line = { heuristic: p.heuristic, points: [] }));
    line.points.push({ share, slowdown: p.result === 'ok' ? p.slowdown : null, source: p });
    if (!trace.budgets.includes(share)) trace.budgets.push(share);
  }
  for (const trace of traces.values()) {
    trace.lines.sort((a, b) => order(a.heuristic, b.heuristic));
    trace.budgets.sort((a, b) => a - b);
    for (const line of trace.lines) line.points.sort((a, b) => a.share - b.share);
  }
  return [...traces.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The heuristics with the least slowdown at a budget; none when nothing finished. */
export function best(trace: Trace, share: number): Line[] {
  const at = (l: Line): number => l.points.find((p) => p.share === share)?.slowdown ?? Infinity;
  const least = Math.min(...trace.lines.map(at));
  return Number.isFinite(least) ? trace.lines.filter((l) => at(l) === least) : [];
}
