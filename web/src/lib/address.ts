// What the page shows, as the fragment of its address: #file=0&run=1&t0=..&t1=..&pick=decision.12

import type { Window } from './scale';

export interface Pick {
  kind: 'decision' | 'execution' | 'storage';
  id: number;
}

export interface Place {
  view: 'list' | 'run' | 'sweep';
  file: number;
  run: number;
  window: Window | null;
  marked: Window | null;
  pick: Pick | null;
  sort: string;
}

export const HOME: Place = {
  view: 'list', file: 0, run: 0, window: null, marked: null, pick: null, sort: 'created',
};

const KINDS = ['decision', 'execution', 'storage'] as const;
const VIEWS = ['list', 'run', 'sweep'] as const;
const SORTS = ['created', 'bytes', 'remakes'];

function whole(text: string | null): number | null {
  return text !== null && /^-?\d{1,15}$/.test(text) ? Number(text) : null;
}

function readWindow(p: URLSearchParams, from: string, to: string): Window | null {
  const t0 = whole(p.get(from));
  const t1 = whole(p.get(to));
  return t0 !== null && t1 !== null && t0 < t1 ? { t0, t1 } : null;
}

/** Anything may stand in an address: what does not fit is left out. */
export function parse(fragment: string): Place {
  const p = new URLSearchParams(fragment.replace(/^#/, ''));
  const [kind, id] = (p.get('pick') ?? '').split('.');
  const number = whole(id ?? null);
  const known = KINDS.find((k) => k === kind);
  return {
    view: VIEWS.find((v) => v === p.get('view')) ?? 'list',
    file: Math.max(0, whole(p.get('file')) ?? 0),
    run: Math.max(0, whole(p.get('run')) ?? 0),
    window: readWindow(p, 't0', 't1'),
    marked: readWindow(p, 'm0', 'm1'),
    pick: known && number !== null ? { kind: known, id: number } : null,
    sort: SORTS.find((s) => s === p.get('sort')) ?? 'created',
  };
}

export function format(place: Place): string {
  const p = new URLSearchParams();
  if (place.view !== 'list') p.set('view', place.view);
  if (place.view !== 'list') p.set('file', String(place.file));
  if (place.view === 'run') p.set('run', String(place.run));
  if (place.window) {
    p.set('t0', String(place.window.t0));
    p.set('t1', String(place.window.t1));
  }
  if (place.marked) {
    p.set('m0', String(place.marked.t0));
    p.set('m1', String(place.marked.t1));
  }
  if (place.pick) p.set('pick', `${place.pick.kind}.${place.pick.id}`);
  if (place.view === 'run' && place.sort !== 'created') p.set('sort', place.sort);
  const text = p.toString();
  return text ? `#${text}` : '#';
}
