// The page of a sweep: one chart a trace, its legend to choose lines, the same numbers as a table.

import type { Sweep } from '../api/types';
import { drawSweep, lineColour, type SweepPicture } from '../draw/sweep';
import { readTheme } from '../draw/theme';
import { h, replace } from '../lib/dom';
import { bytes, count, factor } from '../lib/format';
import { best, group, type Line, type Point, type Trace } from '../lib/sweep';
import { RESULTS } from './list';

const FEW = 8; // lines shown at first

const share = (of: number): string => `${Number((of * 100).toFixed(2))} %`;

class TraceChart {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas', { role: 'img' });
  private readonly tip = h('div.tip', { hidden: true, role: 'tooltip' });
  private readonly holder = h('div.chart', {}, this.canvas, this.tip);
  private readonly legend = h('div.choices', { role: 'group', 'aria-label': 'heuristics shown' });
  private readonly shown: Set<string>;
  private readonly dark = matchMedia('(prefers-color-scheme: dark)');
  private readonly observer = new ResizeObserver(() => this.redraw());
  private picture: SweepPicture | null = null;
  private strong: string | null = null;
  private frame = 0;

  constructor(private readonly trace: Trace) {
    const names = trace.lines.map((l) => l.heuristic);
    this.shown = new Set(names.slice(0, FEW));
    this.canvas.setAttribute('aria-label', `slowdown against budget for ${trace.name}; the table has the numbers`);
    this.element = h('section.card.sweep', {}, h('h2', {}, trace.name),
      h('p.sub', {}, 'Slowdown against the budget, as a share of the unlimited peak. ',
        'In the band above: ■ out of memory, × thrashed.'),
      this.holder, this.legend, this.bestTable(),
      h('details', {}, h('summary', {}, 'All results as a table'), this.table()));
    this.fillLegend();
    this.canvas.addEventListener('pointermove', (e) => this.hover(e));
    this.canvas.addEventListener('pointerleave', () => this.leave());
    this.observer.observe(this.holder);
    this.dark.addEventListener('change', this.redraw);
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.dark.removeEventListener('change', this.redraw);
  }

  private redraw = (): void => {
    if (!this.frame) this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.picture = drawSweep(this.canvas, this.trace, this.shown, this.holder.clientWidth, readTheme(),
        this.dark.matches, this.strong);
    });
  };

  private fillLegend(): void {
    replace(this.legend, this.trace.lines.map((line, i) => {
      const box = h('input', {
        type: 'checkbox', checked: this.shown.has(line.heuristic),
        onchange: () => {
          if (box.checked) this.shown.add(line.heuristic);
          else this.shown.delete(line.heuristic);
          this.redraw();
        },
      });
      const text = h('label', {
        onpointerenter: () => this.emphasize(line.heuristic), onpointerleave: () => this.emphasize(null),
      }, box, line.heuristic);
      text.style.setProperty('--curve', lineColour(i, this.dark.matches));
      return text;
    }));
  }

  private emphasize(name: string | null): void {
    this.strong = name && this.shown.has(name) ? name : null;
    this.redraw();
  }

  private nearest(e: PointerEvent): { line: Line; point: Point } | null {
    let found = null;
    let distance = 18;
    for (const line of this.trace.lines.filter((l) => this.shown.has(l.heuristic)))
      for (const point of line.points) {
        if (point.slowdown === null || !this.picture) continue;
        const d = Math.hypot(this.picture.x(point.share) - e.offsetX, this.picture.y(point.slowdown) - e.offsetY);
        if (d < distance) {
          distance = d;
          found = { line, point };
        }
      }
    return found;
  }

  private hover(e: PointerEvent): void {
    const found = this.nearest(e);
    this.emphasize(found?.line.heuristic ?? null);
    this.tip.hidden = !found;
    if (!found) return;
    const { source, share: at, slowdown } = found.point;
    replace(this.tip, h('strong', {}, `${found.line.heuristic}: ${factor(slowdown)}`),
      h('div', {}, `budget ${share(at)}, ${bytes(source.budget_bytes)}`),
      h('div', {}, `peak ${bytes(source.peak_bytes)}`),
      h('div', {}, `${count(source.evictions)} evictions, ${count(source.rematerializations)} replays`));
    const left = e.offsetX + 14 + this.tip.offsetWidth > this.holder.clientWidth
      ? e.offsetX - 14 - this.tip.offsetWidth : e.offsetX + 14;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${e.offsetY + 14}px`;
  }

  private leave(): void {
    this.tip.hidden = true;
    this.emphasize(null);
  }

  private bestTable(): HTMLElement {
    return h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'best heuristic for each budget' },
      h('table.best', {}, h('caption', {}, 'Best heuristic for each budget'),
        h('tbody', {},
          h('tr', {}, h('th', { scope: 'row' }, 'budget'),
            this.trace.budgets.map((b) => h('th', { scope: 'col' }, share(b)))),
          h('tr', {}, h('th', { scope: 'row' }, 'best'), this.trace.budgets.map((b) => h('td', {}, this.bestAt(b)))),
          h('tr', {}, h('th', { scope: 'row' }, 'slowdown'), this.trace.budgets.map((b) => {
            const line = best(this.trace, b)[0];
            return h('td', {}, factor(line?.points.find((p) => p.share === b)?.slowdown ?? null));
          })))));
  }

  private bestAt(budget: number): string {
    const lines = best(this.trace, budget);
    if (lines.length === 0) return 'none fits';
    if (lines.length === this.trace.lines.length) return 'all equal';
    return lines.length > 2 ? `${lines[0]!.heuristic} + ${lines.length - 1}` : lines.map((l) => l.heuristic).join(', ');
  }

  private table(): HTMLElement {
    const cell = (p: Point | undefined): string =>
      !p ? '' : p.slowdown === null ? RESULTS[p.source.result] ?? p.source.result : factor(p.slowdown);
    return h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'all results' },
      h('table', {}, h('caption', {}, 'Slowdown by heuristic and budget'),
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'heuristic'),
          this.trace.budgets.map((b) => h('th', { scope: 'col' }, share(b))))),
        h('tbody', {}, this.trace.lines.map((l) => h('tr', {}, h('th', { scope: 'row' }, l.heuristic),
          this.trace.budgets.map((b) => h('td', {}, cell(l.points.find((p) => p.share === b)))))))));
  }
}

export class SweepView {
  readonly element: HTMLElement;
  private readonly charts: TraceChart[];

  constructor(sweep: Sweep) {
    this.charts = group(sweep.points).map((t) => new TraceChart(t));
    this.element = h('main.list', {}, h('h1', {}, 'Sweep'),
      sweep.not_shown > 0 && h('p.banner', {}, `${count(sweep.not_shown)} more results are not shown.`),
      this.charts.length === 0 && h('p.empty', {},
        'This file has no simulated run with a budget. `dtrscope sweep TRACE -o FILE` makes them.'),
      this.charts.map((c) => c.element));
  }

  stop(): void {
    this.charts.forEach((c) => c.stop());
  }
}
