// The page of one run: facts, the timeline, and the panel of what was picked.

import { ask } from '../api/client';
import type { Found, RunInfo } from '../api/types';
import { EvictionTrack } from '../draw/evictions';
import { LaneTrack } from '../draw/lanes';
import { MemoryTrack } from '../draw/memory';
import { ResidencyTrack } from '../draw/residency';
import type { Pick, Place } from '../lib/address';
import { h, replace, say, type Child } from '../lib/dom';
import { bytes, count, factor, instant, percent, plural, time } from '../lib/format';
import { navigation } from '../state/place';
import { RESULTS, runTitle } from './list';
import { Panel } from './panel';
import { Timeline } from './timeline';

const REFRESH_MS = 2000;

const SORTS: [string, string][] = [
  ['created', 'by creation'], ['bytes', 'by size'], ['remakes', 'by re-makes'],
];

function fact(name: string, value: Child, detail: Child = null, tone = ''): HTMLElement {
  return h('div.fact', { 'data-tone': tone || null },
    h('span.name', {}, name), h('span.value', {}, value), h('span.detail', {}, detail));
}

function renderFacts(info: RunInfo): HTMLElement {
  const { run, stats } = info;
  const mean = stats.decisions ? stats.candidates / stats.decisions : 0;
  const share = (ns: number): string => percent(stats.total_ns ? ns / stats.total_ns : 0);
  return h('div.facts-row', {},
    fact('result', RESULTS[run.result] ?? run.result, run.why, run.result === 'ok' ? '' : 'bad'),
    fact('heuristic', run.heuristic ?? 'none', `${run.search ?? 'no'} search, ${run.deallocation}`),
    fact('peak', bytes(run.peak_bytes), run.budget_bytes === null ? 'no budget'
      : `${percent((run.peak_bytes ?? 0) / run.budget_bytes)} of ${bytes(run.budget_bytes)}`),
    run.unlimited_peak_bytes !== null && fact('unlimited peak', bytes(run.unlimited_peak_bytes),
      run.budget_bytes !== null
        ? `the budget is ${percent(run.budget_bytes / run.unlimited_peak_bytes)} of it` : null),
    fact('slowdown', factor(run.slowdown), `replays are ${share(stats.replay_ns)} of the time`),
    fact('evictions', count(stats.evictions), `of ${count(Math.round(mean))} candidates on average`),
    fact('replays', count(stats.replays),
      `in ${plural(stats.chains, 'chain')}, deepest ${stats.deepest_chain}`),
    fact('operators', count(stats.first_runs),
      run.clock === 'logical' ? `${time(stats.first_ns)} of compute` : `${time(stats.first_ns)}, measured`));
}

function renderLosses(info: RunInfo): Child {
  const lost = info.losses.filter((l) => l.reason !== 'overwritten');
  if (!lost.length) return false;
  const unknown = lost.some((l) => l.count === null);
  const sum = lost.reduce((n, l) => n + (l.count ?? 0), 0);
  return h('p.banner', { role: 'alert' },
    `${unknown ? 'An unknown number of events' : plural(sum, 'event')} lost `,
    `(${lost.map((l) => `${l.reason}: ${l.count === null ? 'unknown' : count(l.count)}`).join(', ')}): `,
    'what is shown has holes. Record again with a larger buffer or a faster disk.');
}

function renderWindows(info: RunInfo): Child {
  const { windows } = info;
  const overwritten = info.losses.find((l) => l.reason === 'overwritten')?.count ?? 0;
  if (!windows.length && !overwritten) return false;
  const skipped = windows.reduce((n, w) => n + w.skipped, 0);
  const shown = windows.slice(0, 6).map((w) => `${instant(w.begin)} to ${
    w.end === null ? 'the end' : instant(w.end)
  } (${w.opened_by} to ${w.closed_by ?? 'end'})`);
  return h('p.banner.calm', {},
    `Only parts of the run are recorded: ${shown.join(', ')}`,
    windows.length > 6 && ` and ${windows.length - 6} more`,
    skipped > 0 && `; ${plural(skipped, 'event')} left out on purpose`,
    overwritten > 0 && `; ${plural(overwritten, 'older event')} overwritten by newer ones`,
    '. Outside, the pictures say nothing.');
}

function renderBanners(info: RunInfo): Child {
  return [
    renderLosses(info),
    renderWindows(info),
    info.run.result === 'running' && h('p.banner.calm', {},
      'This run has not ended, or was killed. New events show as they come.'),
  ];
}

function renderTop(info: RunInfo): HTMLElement {
  return h('details.more', {},
    h('summary', {}, 'Most re-made operators, time split and settings'),
    h('div.columns', {},
      h('table', {}, h('caption', {}, 'Most re-made'),
        h('thead', {}, h('tr', {}, ['operator', 'replays', 'cost'].map((t) => h('th', { scope: 'col' }, t)))),
        h('tbody', {}, info.stats.top.map((r) => h('tr', {},
          h('th', { scope: 'row' }, `${r.name || 'operator'} (${r.op})`),
          h('td', {}, count(r.replays)), h('td', {}, time(r.cost_ns)))))),
      h('table', {}, h('caption', {}, 'Time'), h('tbody', {}, ([
        ['first runs', info.stats.first_ns], ['replays', info.stats.replay_ns],
        ['search', info.stats.search_ns], ['recording', info.stats.record_ns],
        ['other', info.stats.other_ns], ['total', info.stats.total_ns],
      ] as [string, number][]).map(([name, ns]) => h('tr', {}, h('th', { scope: 'row' }, name),
        h('td', {}, time(ns)), h('td', {}, percent(info.stats.total_ns ? ns / info.stats.total_ns : 0)))))),
      info.stats.notes.length > 0 && h('table', {}, h('caption', {}, 'Kept and cut'),
        h('thead', {}, h('tr', {}, ['cause', 'times', 'replays', 'took'].map((t) => h('th', { scope: 'col' }, t)))),
        h('tbody', {}, info.stats.notes.map((n) => h('tr', {},
          h('th', { scope: 'row' }, n.hazard ? `kept: ${n.cause}` : n.cause), h('td', {}, count(n.count)),
          h('td', {}, n.hazard ? '' : count(n.replays)), h('td', {}, n.hazard ? '' : time(n.dur_ns)))))),
      info.settings.length > 0 && h('table', {}, h('caption', {}, 'Settings'),
        h('tbody', {}, info.settings.map((s) => h('tr', {}, h('th', { scope: 'row' }, s.name),
          h('td', {}, s.value ?? 'not set'), h('td', {}, s.origin)))))));
}

export class RunView {
  readonly element: HTMLElement;
  private readonly source: { file: number; run: number };
  private readonly timeline: Timeline;
  private readonly panel: Panel;
  private readonly side = h('aside.panel', { hidden: true, 'aria-label': 'details', tabindex: -1 });
  private readonly problem = h('p.banner', { hidden: true, role: 'alert' });
  private readonly found = h('div.found', { hidden: true });
  private readonly search: HTMLInputElement;
  private readonly pager = h('span.pager', {});
  private readonly residency: ResidencyTrack;
  private readonly banners = h('div', {});
  private readonly facts = h('div', {});
  private loading: AbortController | null = null;
  private refresh = 0;

  constructor(place: Place, info: RunInfo) {
    this.source = { file: place.file, run: place.run };
    const hooks = {
      redraw: () => this.timeline.redraw(),
      failed: (error: Error) => this.fail(error.message),
    };
    const top = Math.max(info.run.peak_bytes ?? 0, info.run.budget_bytes ?? 0, 1);
    this.residency = new ResidencyTrack(this.source, hooks, () => this.fillPager());
    this.residency.sort = place.sort;
    this.timeline = new Timeline(
      { t0: info.begin, t1: Math.max(info.end, info.begin + 10) }, place.window, info.marks,
      [new MemoryTrack(this.source, top, hooks), new EvictionTrack(this.source, hooks),
        new LaneTrack(this.source, info.stats.replays ? info.stats.deepest_chain : 0, hooks),
        this.residency],
      { residency: this.residencyControls(), operators: this.legend() },
      {
        moved: (window) => navigation.adjust({ window }),
        marked: (marked) => navigation.adjust({ marked }),
        picked: (pick) => navigation.adjust({ pick }),
      });
    this.panel = new Panel(this.source, {
      open: (pick) => navigation.adjust({ pick }),
      show: (t, span) => this.timeline.show({ t0: t - span * 0.2, t1: t + span * 1.2 }),
    });
    this.search = h('input', {
      type: 'search', placeholder: 'Find an operator or a number  /', 'aria-label': 'find', maxlength: 100,
      oninput: () => void this.find(),
      onkeydown: (e: KeyboardEvent) => {
        if (e.key === 'Escape') this.closeSearch();
        if (e.key === 'Enter') this.found.querySelector('button')?.click();
      },
    });
    this.element = h('main.run', {},
      h('div.title', {}, h('h1', {}, runTitle(info.run)),
        h('span.sub', {}, info.run.kind === 'live' ? 'recorded run, host time' : 'simulated run, logical time'),
        h('div.search', {}, this.search, this.found),
        h('button', { onclick: () => this.timeline.show(this.timeline.all) }, 'Fit'),
        h('button', { onclick: () => this.help(), 'aria-keyshortcuts': '?' }, 'Keys')),
      this.banners, this.problem, this.facts,
      h('div.split', {}, this.timeline.element, this.side));
    this.fill(info);
    if (place.marked) this.timeline.select(place.marked);
    this.timeline.request(0);
    if (place.pick) void this.openPick(place.pick, false);
    if (info.run.result === 'running')
      this.refresh = window.setInterval(() => void this.follow(), REFRESH_MS);
  }

  private fill(info: RunInfo): void {
    replace(this.banners, renderBanners(info));
    replace(this.facts, renderFacts(info), renderTop(info));
  }

  /** A run that goes on: the axis grows, and a window at its end stays at its end. */
  private async follow(): Promise<void> {
    try {
      const info = await ask<RunInfo>('run', this.source);
      this.fill(info);
      this.timeline.extend({ t0: info.begin, t1: Math.max(info.end, info.begin + 10) });
      if (info.run.result !== 'running') clearInterval(this.refresh);
    } catch (error) {
      this.fail((error as Error).message);
    }
  }

  stop(): void {
    clearInterval(this.refresh);
    this.loading?.abort();
    this.timeline.stop();
  }

  update(place: Place, before: Place): void {
    if (JSON.stringify(place.pick) !== JSON.stringify(before.pick)) void this.openPick(place.pick, true);
    if (place.window && JSON.stringify(place.window) !== JSON.stringify(this.timeline.shown))
      this.timeline.show(place.window);
    if (place.sort !== this.residency.sort) {
      this.residency.sort = place.sort;
      this.residency.offset = 0;
      this.timeline.request(0);
    }
  }

  private legend(): HTMLElement {
    return h('ul.legend', {}, h('li', {}, h('i.first', {}), 'first run'), h('li', {}, h('i.replay', {}), 'replay'));
  }

  private residencyControls(): HTMLElement {
    const select = h('select', {
      'aria-label': 'order of storages',
      onchange: () => navigation.adjust({ sort: select.value }),
    }, SORTS.map(([value, text]) =>
      h('option', { value, selected: value === this.residency.sort }, text)));
    return h('div.controls', {},
      h('ul.legend', {}, h('li', {}, h('i.resident', {}), 'as first made'), h('li', {}, h('i.replay', {}), 're-made')),
      select, this.pager);
  }

  private fillPager(): void {
    const data = this.residency.data;
    if (!data) return;
    const step = (by: number) => () => {
      this.residency.offset = Math.max(0, this.residency.offset + by);
      this.timeline.request(0);
    };
    const end = data.offset + data.rows.length;
    replace(this.pager,
      h('button', { 'aria-label': 'previous storages', disabled: data.offset === 0, onclick: step(-ResidencyTrack.PAGE) }, '‹'),
      h('span.sub', {}, data.total === 0 ? 'none' : `${count(data.offset + 1)}–${count(end)} of ${count(data.total)}`),
      h('button', { 'aria-label': 'next storages', disabled: end >= data.total, onclick: step(ResidencyTrack.PAGE) }, '›'));
  }

  private fail(text: string): void {
    this.problem.textContent = text;
    this.problem.hidden = false;
  }

  // --- the panel ---

  private async openPick(pick: Pick | null, move: boolean): Promise<void> {
    this.loading?.abort();
    this.timeline.highlight(pick);
    if (!pick) {
      this.side.hidden = true;
      return;
    }
    const loading = new AbortController();
    this.loading = loading;
    this.side.hidden = false;
    const close = h('button.close', { 'aria-label': 'close', onclick: () => navigation.adjust({ pick: null }) }, '×');
    try {
      const { title, body, t } = await this.panel.load(pick, loading.signal);
      replace(this.side, h('header', {}, h('h2', {}, title), close), body);
      this.side.scrollTop = 0;
      if (move) this.timeline.reveal(t);
      say(title);
    } catch (error) {
      if (loading.signal.aborted) return;
      replace(this.side, h('header', {}, h('h2', {}, 'Not to be shown'), close),
        h('p', {}, (error as Error).message));
    }
  }

  // --- search ---

  private async find(): Promise<void> {
    const text = this.search.value.trim();
    this.found.hidden = text === '';
    if (!text) return;
    let found: Found;
    try {
      found = await ask<Found>('search', { ...this.source, text });
    } catch (error) {
      replace(this.found, h('p.empty', {}, (error as Error).message));
      return;
    }
    if (text !== this.search.value.trim()) return;
    const go = (pick: Pick) => () => {
      this.closeSearch();
      navigation.adjust({ pick });
    };
    replace(this.found,
      found.storage !== null && h('button', { onclick: go({ kind: 'storage', id: found.storage }) }, `storage ${found.storage}`),
      found.executions.map((e) => h('button', { onclick: go({ kind: 'execution', id: e.execution }) },
        `${e.name || 'operator'} (${e.op})`, h('span.sub', {}, `${e.replay ? 'replay' : 'first run'} at ${instant(e.t)}`))),
      found.not_shown > 0 && h('p.note', {}, `${plural(found.not_shown, 'more run')} not shown`),
      found.executions.length === 0 && found.storage === null && h('p.empty', {},
        'Nothing has this name or number. Part of an operator’s name is enough.'));
  }

  private closeSearch(): void {
    this.search.value = '';
    this.found.hidden = true;
    this.search.blur();
  }

  // --- keys ---

  key(e: KeyboardEvent): boolean {
    const { pick } = navigation.get();
    if (e.key === '/') this.search.focus();
    else if (e.key === '?') this.help();
    else if (e.key === 'Escape') {
      if (pick) navigation.adjust({ pick: null });
      else if (this.timeline.selected) this.timeline.select(null);
    } else if ((e.key === '.' || e.key === ',') && pick?.kind === 'decision')
      this.side.querySelector<HTMLButtonElement>(
        e.key === '.' ? '.steps button:last-child' : '.steps button:first-child')?.click();
    else return this.timeline.key(e.key);
    return true;
  }

  private help(): void {
    const keys: [string, string][] = [
      ['wheel, pinch, W S', 'zoom at the pointer'], ['drag, A D, arrows', 'move'],
      ['Shift + drag, M', 'mark a span'], ['F', 'fit the marked span, then the run'],
      ['click', 'details of an eviction, an operator run, a storage'],
      [', .', 'previous and next eviction'], ['/', 'find'], ['Esc', 'close, clear'], ['?', 'this list'],
    ];
    const dialog = h('dialog.keys', { onclose: () => dialog.remove() },
      h('h2', {}, 'Keys'), h('dl', {}, keys.map(([k, what]) => [h('dt', {}, k), h('dd', {}, what)])),
      h('form', { method: 'dialog' }, h('button', { autofocus: true, onclick: () => dialog.close() }, 'Close')));
    document.body.append(dialog);
    dialog.showModal();
  }
}
