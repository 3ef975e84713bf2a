// What the shared time axis asks of a track: what to fetch, how to draw it, what is where.

import type { Pick } from '../lib/address';
import type { Window } from '../lib/scale';
import type { Theme } from './theme';

export interface View {
  window: Window;
  width: number;
  theme: Theme;
  pick: Pick | null;
}

/** What the pointer is over: lines for the tooltip and what a click opens. */
export interface Hit {
  title: string;
  lines: string[];
  pick: Pick | null;
}

export interface Table {
  caption: string;
  head: string[];
  rows: { cells: string[]; pick: Pick | null }[];
}

export interface Track {
  readonly id: string;
  readonly title: string;
  readonly hint: string;
  height(): number;
  request(window: Window, buckets: number, delay_ms: number): void;
  draw(ctx: CanvasRenderingContext2D, view: View): void;
  hit(x: number, y: number, view: View): Hit | null;
  table(window: Window): Table;
  stop(): void;
}

/** A string of the request that all tracks of a run share. */
export interface Source {
  file: number;
  run: number;
}

export interface Hooks {
  redraw(): void;
  failed(error: Error): void;
}
