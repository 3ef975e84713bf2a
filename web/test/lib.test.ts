import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SweepPoint } from '../src/api/types';
import { format, HOME, parse } from '../src/lib/address';
import { axisTime, bytes, instant, score, time } from '../src/lib/format';
import { byteTicks, clamp, MIN_SPAN, pan, ticks, timeToX, xToTime, zoom } from '../src/lib/scale';
import { best, group } from '../src/lib/sweep';

const ALL = { t0: 0, t1: 1_000_000 };

test('zooming keeps the time under the pointer where it is', () => {
  for (const at of [100_000, 500_000, 900_000]) {
    const before = { t0: 50_000, t1: 950_000 };
    const after = zoom(before, at, 0.5, ALL);
    assert.ok(Math.abs(timeToX(after, at, 1000) - timeToX(before, at, 1000)) < 0.01);
    assert.equal(after.t1 - after.t0, 450_000);
  }
});

test('no move leaves the run, and no zoom gets narrower than the least span', () => {
  assert.deepEqual(pan(ALL, 5_000, ALL), ALL);
  assert.deepEqual(pan({ t0: 0, t1: 100 }, -5_000, ALL), { t0: 0, t1: 100 });
  assert.deepEqual(clamp({ t0: -10, t1: 9e9 }, ALL), ALL);
  let w = ALL;
  for (let i = 0; i < 100; i++) w = zoom(w, 500_000, 0.5, ALL);
  assert.equal(w.t1 - w.t0, MIN_SPAN);
});

test('pixels and times are each other’s inverse', () => {
  const w = { t0: 123, t1: 98_765 };
  for (const x of [0, 17, 640, 1280]) assert.ok(Math.abs(timeToX(w, xToTime(w, x, 1280), 1280) - x) < 1e-9);
});

test('ticks are round, rise, and lie within what they are for', () => {
  for (const [from, to] of [[0, 1], [0.3, 7.7], [-5, 5], [1e9, 1e9 + 10]] as const) {
    const list = ticks(from, to, 8);
    assert.ok(list.length >= 3 && list.length <= 21, `${from}..${to}: ${list.length}`);
    assert.ok(list.every((t, i) => t >= from - 1e-9 && t <= to + 1e-6 && (i === 0 || t > list[i - 1]!)));
  }
  assert.deepEqual(ticks(5, 5, 3), []);
  assert.deepEqual(byteTicks(4096, 4), [0, 1024, 2048, 3072, 4096]);
});

test('sizes and times are written with unit and three digits', () => {
  assert.equal(bytes(0), '0 B');
  assert.equal(bytes(1023), '1023 B');
  assert.equal(bytes(1024), '1.00 KiB');
  assert.equal(bytes(1024 ** 2 - 1), '1.00 MiB');
  assert.equal(bytes(3018353745), '2.81 GiB');
  assert.equal(bytes(null), '–');
  assert.equal(time(999), '999 ns');
  assert.equal(time(999_999), '1.00 ms');
  assert.equal(time(52_143_294), '52.1 ms');
  assert.equal(time(null), '–');
  assert.equal(instant(309_532_171), '309.532 ms');
  assert.equal(instant(999), '999 ns');
  assert.equal(axisTime(50e6, 50e6), '50 ms');
  assert.equal(axisTime(1_234_500, 100), '1.2345 ms');
  assert.equal(score(null), '∞');
  assert.equal(score(1.0689e-9), '1.069e-9');
});

test('an address survives writing and reading', () => {
  const place = {
    ...HOME, view: 'run' as const, file: 2, run: 7, window: { t0: -5, t1: 10 }, marked: { t0: 1, t1: 2 },
    pick: { kind: 'decision' as const, id: 12 }, sort: 'bytes',
  };
  assert.deepEqual(parse(format(place)), place);
  assert.deepEqual(parse(format(HOME)), HOME);
});

test('nonsense in an address is left out', () => {
  assert.deepEqual(parse('#view=x&file=-3&run=1e9&t0=9&t1=3&m0=a&m1=4&pick=decision.x&sort=%00'), HOME);
  assert.deepEqual(parse('#pick=constructor.1'), HOME);
});

const point = (heuristic: string, share: number, slowdown: number | null, result = 'ok'): SweepPoint => ({
  run: 1, trace: '/a/t.log', trace_hash: '1', heuristic, deallocation: 'eager', result,
  budget_bytes: 100 * share, unlimited_peak_bytes: 100, budget_share: share, peak_bytes: 1, slowdown,
  evictions: 0, rematerializations: 0, has_events: false,
});

test('a sweep becomes one chart a trace, and runs that failed have no slowdown', () => {
  const [trace, ...others] = group([
    point('lru', 0.5, 2), point('dtr', 0.5, 1.5), point('dtr', 0.2, 9, 'thrashed'), point('lru', 0.2, null, 'out_of_memory'),
  ]);
  assert.equal(others.length, 0);
  assert.equal(trace!.name, 't.log, eager');
  assert.deepEqual(trace!.lines.map((l) => l.heuristic), ['dtr', 'lru']);
  assert.deepEqual(trace!.budgets, [0.2, 0.5]);
  assert.equal(trace!.lines[0]!.points[0]!.slowdown, null);
});

test('the best heuristic is the one with the least slowdown, with its ties, or none', () => {
  const [trace] = group([
    point('dtr', 0.5, 1.5), point('lru', 0.5, 2), point('size', 0.5, 1.5), point('dtr', 0.1, null, 'thrashed'),
  ]);
  assert.deepEqual(best(trace!, 0.5).map((l) => l.heuristic), ['dtr', 'size']);
  assert.deepEqual(best(trace!, 0.1), []);
});
