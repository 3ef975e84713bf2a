// The visible window of time, and how it moves.  Pure: no DOM, no clock.

export interface Window {
  t0: number;
  t1: number;
}

/** The narrowest window: a few nanoseconds, so that t0 < t1 holds in whole numbers. */
export const MIN_SPAN = 10;

/** `w` moved and narrowed to lie within `all`; its span stays within MIN_SPAN and that of `all`. */
export function clamp(w: Window, all: Window): Window {
  const most = Math.max(all.t1 - all.t0, MIN_SPAN);
  const span = Math.min(Math.max(w.t1 - w.t0, MIN_SPAN), most);
  const t0 = Math.min(Math.max(w.t0, all.t0), all.t0 + most - span);
  return { t0: Math.round(t0), t1: Math.round(t0 + span) };
}

/** Zooms so that the time at `at` stays where it is; factor 0.5 shows half as much. */
export function zoom(w: Window, at: number, factor: number, all: Window): Window {
  const share = (at - w.t0) / (w.t1 - w.t0);
  const most = Math.max(all.t1 - all.t0, MIN_SPAN);
  const span = Math.min(Math.max((w.t1 - w.t0) * factor, MIN_SPAN), most);
  return clamp({ t0: at - share * span, t1: at - share * span + span }, all);
}

export function pan(w: Window, by: number, all: Window): Window {
  return clamp({ t0: w.t0 + by, t1: w.t1 + by }, all);
}

export const timeToX = (w: Window, t: number, width: number): number =>
  ((t - w.t0) / (w.t1 - w.t0)) * width;

export const xToTime = (w: Window, x: number, width: number): number =>
  w.t0 + (x / width) * (w.t1 - w.t0);

/** Round steps 1, 2, 5 × 10^n: about `want` of them in [from, to]. */
export function ticks(from: number, to: number, want: number): number[] {
  if (!(to > from) || want < 1) return [];
  const raw = (to - from) / want;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) ?? 10 * power;
  const out: number[] = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) out.push(i * step);
  return out;
}

/** Steps 1, 2, 4, ... × a binary unit, for axes of bytes. */
export function byteTicks(to: number, want: number): number[] {
  if (!(to > 0)) return [];
  let step = 1;
  while (to / step > want) step *= 2;
  const out: number[] = [];
  for (let v = 0; v <= to; v += step) out.push(v);
  return out;
}
