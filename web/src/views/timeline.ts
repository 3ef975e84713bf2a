// The tracks of a run on one time axis: pointer and keys move the window, tracks ask and draw.

import type { Mark } from '../api/types';
import { AXIS_HEIGHT, drawAxis } from '../draw/axis';
import { prepare, readTheme, type Theme } from '../draw/theme';
import type { Hit, Track, View } from '../draw/track';
import { h, replace, say } from '../lib/dom';
import { instant, time } from '../lib/format';
import { clamp, pan, timeToX, xToTime, zoom, type Window } from '../lib/scale';
import type { Pick } from '../lib/address';
import { renderTable } from './table';

const DRAG = 3; // px before a press becomes a drag
const DELAY_MS = 60;

export interface TimelineEvents {
  moved(window: Window): void;
  marked(span: Window | null): void;
  picked(pick: Pick): void;
}

interface Strip {
  track: Track;
  canvas: HTMLCanvasElement;
  table: HTMLElement;
  open: boolean;
}

export class Timeline {
  readonly element: HTMLElement;
  private readonly strips: Strip[];
  private readonly axis = h('canvas', { 'aria-hidden': 'true' });
  private readonly cursor = h('div.cursor', { hidden: true });
  private readonly band = h('div.band', { hidden: true });
  private readonly tip = h('div.tip', { hidden: true, role: 'tooltip' });
  private readonly plot: HTMLElement;
  private readonly observer: ResizeObserver;
  private readonly dark = matchMedia('(prefers-color-scheme: dark)');
  private theme: Theme = readTheme();
  private frame = 0;
  private width = 800;
  private window: Window;
  private span: Window | null = null;
  private pick: Pick | null = null;

  constructor(
    private extent: Window, start: Window | null, private readonly marks: Mark[], tracks: Track[],
    extras: Record<string, HTMLElement>, private readonly events: TimelineEvents,
  ) {
    this.window = clamp(start ?? extent, extent);
    this.strips = tracks.map((track) => ({
      track,
      canvas: h('canvas', { role: 'img', tabindex: 0, 'aria-label': `${track.title}: ${track.hint}` }),
      table: h('div.twin', { hidden: true }),
      open: false,
    }));
    this.plot = h('div.plot', {}, this.band, this.cursor, this.tip);
    this.element = h('div.timeline', {},
      h('div.gutter.axis', {}, h('span.sub', {}, 'time')), h('div.axis', {}, this.axis),
      this.strips.map((s) => [this.gutter(s, extras[s.track.id]), h('div.cell', {}, s.canvas, s.table)]),
      this.plot);
    this.listen();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.axis.parentElement!);
    this.dark.addEventListener('change', this.retheme);
  }

  private gutter(strip: Strip, extra: HTMLElement | undefined): HTMLElement {
    const button = h('button.twin-toggle', {
      'aria-expanded': 'false',
      onclick: () => {
        strip.open = !strip.open;
        button.setAttribute('aria-expanded', String(strip.open));
        this.fillTable(strip);
      },
    }, 'table');
    return h('div.gutter', {}, h('div.name', {}, h('h2', {}, strip.track.title), button),
      h('span.sub', {}, strip.track.hint), extra ?? null);
  }

  private fillTable(strip: Strip): void {
    strip.table.hidden = !strip.open;
    if (strip.open) replace(strip.table, renderTable(strip.track.table(this.window), this.events.picked));
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.dark.removeEventListener('change', this.retheme);
    this.strips.forEach((s) => s.track.stop());
  }

  // --- what is shown ---

  get all(): Window {
    return this.extent;
  }

  get shown(): Window {
    return this.window;
  }

  get selected(): Window | null {
    return this.span;
  }

  show(window: Window): void {
    this.window = clamp(window, this.all);
    this.request(DELAY_MS);
    this.redraw();
    this.events.moved(this.window);
  }

  /** The run has grown. */
  extend(all: Window): void {
    const grown = all.t1 - this.extent.t1;
    const whole = this.isAt(this.extent);
    const atEnd = this.window.t1 === this.extent.t1;
    this.extent = all;
    if (grown > 0 && whole) this.show(all);
    else if (grown > 0 && atEnd) this.show(pan(this.window, grown, all));
  }

  select(span: Window | null): void {
    this.span = span;
    this.events.marked(span);
    this.redraw();
  }

  highlight(pick: Pick | null): void {
    this.pick = pick;
    this.redraw();
  }

  /** Moves so that `t` is in view, keeping the zoom. */
  reveal(t: number): void {
    if (t >= this.window.t0 && t <= this.window.t1) return;
    const half = (this.window.t1 - this.window.t0) / 2;
    this.show({ t0: t - half, t1: t + half });
  }

  /** A little more than the window, so that panning has something to show at once. */
  request(delay_ms: number): void {
    const margin = Math.round((this.window.t1 - this.window.t0) / 4);
    const wide = {
      t0: Math.max(this.window.t0 - margin, this.all.t0),
      t1: Math.min(this.window.t1 + margin, this.all.t1),
    };
    const buckets = Math.min(2000, Math.max(200, Math.round(
      (this.width * (wide.t1 - wide.t0)) / (this.window.t1 - this.window.t0))));
    for (const s of this.strips) s.track.request(wide, buckets, delay_ms);
  }

  redraw = (): void => {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  };

  private retheme = (): void => {
    this.theme = readTheme();
    this.redraw();
  };

  private resize(): void {
    const width = Math.floor(this.axis.parentElement!.clientWidth);
    if (width < 50) return;
    this.width = width;
    this.request(DELAY_MS);
    this.redraw();
  }

  private view(): View {
    return { window: this.window, width: this.width, theme: this.theme, pick: this.pick };
  }

  private draw(): void {
    this.frame = 0;
    const view = this.view();
    drawAxis(prepare(this.axis, this.width, AXIS_HEIGHT), view, this.marks);
    for (const s of this.strips) {
      s.track.draw(prepare(s.canvas, this.width, s.track.height()), view);
      if (s.open) this.fillTable(s);
    }
    this.placeBand();
  }

  private placeBand(): void {
    this.band.hidden = this.span === null;
    if (!this.span) return;
    const x0 = Math.max(0, timeToX(this.window, this.span.t0, this.width));
    const x1 = Math.min(this.width, timeToX(this.window, this.span.t1, this.width));
    this.band.hidden = x1 <= x0;
    this.band.style.left = `${x0}px`;
    this.band.style.width = `${x1 - x0}px`;
    this.band.textContent = time(this.span.t1 - this.span.t0);
  }

  // --- pointer ---

  private listen(): void {
    for (const s of this.strips) {
      const c = s.canvas;
      c.addEventListener('pointerdown', (e) => this.press(e, s));
      c.addEventListener('pointermove', (e) => this.hover(e, s));
      c.addEventListener('pointerleave', () => this.leave());
      c.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
      c.addEventListener('dblclick', () => this.show(this.all));
    }
    this.axis.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
  }

  private wheel(e: WheelEvent): void {
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      const by = ((e.deltaX || e.deltaY) / this.width) * (this.window.t1 - this.window.t0);
      this.show(pan(this.window, by, this.all));
    } else {
      e.preventDefault();
      const at = xToTime(this.window, e.offsetX, this.width);
      this.show(zoom(this.window, at, Math.exp(e.deltaY * (e.ctrlKey ? 0.01 : 0.0016)), this.all));
    }
    this.leave();
  }

  private press(e: PointerEvent, strip: Strip): void {
    if (e.button !== 0) return;
    const canvas = strip.canvas;
    const start = this.window;
    const x = e.offsetX;
    const from = xToTime(start, x, this.width);
    let dragged = false;
    canvas.setPointerCapture(e.pointerId);
    const move = (m: PointerEvent): void => {
      dragged = dragged || Math.abs(m.offsetX - x) > DRAG;
      if (!dragged) return;
      this.leave();
      const to = xToTime(start, m.offsetX, this.width);
      if (e.shiftKey) this.select({ t0: Math.round(Math.min(from, to)), t1: Math.round(Math.max(from, to)) + 1 });
      else this.show(pan(start, from - to, this.all));
    };
    const up = (m: PointerEvent): void => {
      canvas.removeEventListener('pointermove', move);
      canvas.removeEventListener('pointerup', up);
      canvas.removeEventListener('pointercancel', up);
      const hit = dragged || m.type === 'pointercancel' ? null : strip.track.hit(m.offsetX, m.offsetY, this.view());
      if (!hit?.pick) return;
      this.leave();
      this.events.picked(hit.pick);
    };
    canvas.addEventListener('pointermove', move);
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
  }

  private hover(e: PointerEvent, strip: Strip): void {
    if (e.buttons) return;
    const hit = strip.track.hit(e.offsetX, e.offsetY, this.view());
    this.cursor.hidden = false;
    this.cursor.style.left = `${e.offsetX}px`;
    strip.canvas.style.cursor = hit?.pick ? 'pointer' : 'default';
    this.showTip(hit, e, strip);
  }

  private showTip(hit: Hit | null, e: PointerEvent, strip: Strip): void {
    const at = instant(xToTime(this.window, e.offsetX, this.width));
    replace(this.tip, h('strong', {}, hit?.title ?? at),
      (hit?.lines ?? []).map((line) => h('div', {}, line)), hit && h('div.sub', {}, `pointer at ${at}`));
    this.tip.hidden = false;
    const top = strip.canvas.getBoundingClientRect().top - this.plot.getBoundingClientRect().top + e.offsetY;
    const left = e.offsetX + 14 + this.tip.offsetWidth > this.width
      ? e.offsetX - 14 - this.tip.offsetWidth : e.offsetX + 14;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${top + 14}px`;
  }

  private leave(): void {
    this.cursor.hidden = true;
    this.tip.hidden = true;
  }

  // --- keys ---

  /** True when the key was one of ours. */
  key(key: string): boolean {
    const span = this.window.t1 - this.window.t0;
    const middle = this.window.t0 + span / 2;
    const moves: Record<string, () => void> = {
      a: () => this.show(pan(this.window, -span / 5, this.all)),
      d: () => this.show(pan(this.window, span / 5, this.all)),
      w: () => this.show(zoom(this.window, middle, 0.6, this.all)),
      s: () => this.show(zoom(this.window, middle, 1 / 0.6, this.all)),
      f: () => this.show(this.span && !this.isAt(this.span) ? this.span : this.all),
      m: () => this.select(this.span ? null : this.window),
    };
    const alias: Record<string, string> = {
      ArrowLeft: 'a', ArrowRight: 'd', ArrowUp: 'w', ArrowDown: 's', '+': 'w', '=': 'w', '-': 's',
    };
    const move = moves[alias[key] ?? key];
    if (!move) return false;
    move();
    say(`window ${time(this.window.t0)} to ${time(this.window.t1)}`);
    return true;
  }

  private isAt(w: Window): boolean {
    return this.window.t0 === w.t0 && this.window.t1 === w.t1;
  }
}
