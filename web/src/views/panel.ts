// The side panel: one decision, one operator run or one storage in full.

import { ask } from '../api/client';
import type {
  Candidate, Decision, Execution, ExecutionInfo, Fate, Op, StorageInfo, TensorRef,
} from '../api/types';
import type { Source } from '../draw/track';
import type { Pick } from '../lib/address';
import { h, type Child } from '../lib/dom';
import { bytes, count, instant, plural, score, time } from '../lib/format';

export interface PanelActions {
  open(pick: Pick): void;
  show(t: number, span: number): void;
}

const opName = (op: Op | null): string => (op ? `${op.name || 'operator'} (${op.op})` : 'the program');

const REASONS = ['for the budget', 'no longer referenced', 'banished', 'the program asked',
  'its bytes were taken by an in-place operator'];

function facts(rows: [string, Child][]): HTMLElement {
  return h('dl.facts', {}, rows.map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}

const shapes = (op: Op | null): [string, Child][] =>
  (op?.signature ? [['takes and makes', op.signature]] : []);

const section = (title: string, ...children: Child[]): HTMLElement =>
  h('section', {}, h('h3', {}, title), children);

export class Panel {
  constructor(private readonly source: Source, private readonly actions: PanelActions) {}

  async load(pick: Pick, signal: AbortSignal): Promise<{ title: string; body: Child[]; t: number }> {
    const params = { ...this.source, [pick.kind]: pick.id };
    switch (pick.kind) {
      case 'decision':
        return this.decision(await ask<Decision>('decision', params, signal));
      case 'execution':
        return this.execution(await ask<ExecutionInfo>('execution', params, signal));
      case 'storage':
        return this.storage(await ask<StorageInfo>('storage', params, signal));
    }
  }

  private link(text: string, pick: Pick): HTMLElement {
    return h('button.link', { onclick: () => this.actions.open(pick) }, text);
  }

  private storageLink(id: number): HTMLElement {
    return this.link(String(id), { kind: 'storage', id });
  }

  // --- a decision ---

  private decision(d: Decision) {
    const step = (text: string, id: number | null): HTMLElement =>
      h('button', {
        disabled: id === null,
        onclick: () => id !== null && this.actions.open({ kind: 'decision', id }),
      }, text);
    return {
      title: `Eviction at ${instant(d.t)}`,
      t: d.t,
      body: [
        h('p.lead', {}, `${opName(d.op)} needed ${bytes(d.needed)}; `,
          `${bytes(d.in_use)} of ${bytes(d.budget)} were in use, so `,
          `${bytes(Math.max(0, d.in_use + d.needed - d.budget))} had to go.`),
        h('div.steps', {}, step('‹ previous', d.previous), step('next ›', d.next)),
        section('Candidates', this.candidates(d),
          h('p.note', {}, `${plural(d.candidates.length, 'candidate')} of ${count(d.n_candidates)} recorded. `,
            'The lowest score is evicted; cost is the own cost and that of evicted neighbours. ',
            d.tied && 'Two of them are tied: the older storage goes. ')),
        section('What became of it', this.fate(d.fate)),
        section('The choice', facts([
          ['victim', ['storage ', this.storageLink(d.victim.storage), `, ${bytes(d.victim.bytes)}`]],
          ['made by', d.victim.op ? opName(d.victim.op) : 'a constant'],
          ['scores computed', count(d.evaluations)],
          ['search took', d.search_ns === null ? 'not measured (logical clock)' : time(d.search_ns)],
        ])),
      ] as Child[],
    };
  }

  private candidates(d: Decision): HTMLElement {
    const rows = [...d.candidates].sort((a, b) => a.rank - b.rank);
    const best = rows[0]?.score ?? null;
    return h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'candidates' },
      h('table.candidates', {},
        h('thead', {}, h('tr', {},
          ['#', 'storage', 'score', 'cost', 'bytes', 'stale for'].map((t) =>
            h('th', { scope: 'col' }, t)))),
        h('tbody', {}, rows.map((c) => this.candidate(c, best)))));
  }

  private candidate(c: Candidate, best: number | null): HTMLElement {
    const chosen = c.rank === 0;
    const ratio = best && c.score !== null && !chosen ? ` (${(c.score / best).toFixed(2)}×)` : '';
    const extra = c.cost_ns - c.local_cost_ns;
    return h(chosen ? 'tr.chosen' : 'tr', {},
      h('td', {}, String(c.rank + 1)),
      h('th', { scope: 'row', title: opName(c.storage.op) }, this.storageLink(c.storage.storage),
        chosen && h('span.badge', {}, ' evicted'),
        h('span.sub', {}, c.storage.op?.name ?? 'constant')),
      h('td', {}, score(c.score), h('span.sub', {}, ratio)),
      h('td', {}, time(c.cost_ns),
        extra > 0 && h('span.sub', {}, `own ${time(c.local_cost_ns)}`),
        c.neighbours ? h('span.sub', {}, plural(c.neighbours, 'neighbour')) : null),
      h('td', {}, bytes(c.bytes)),
      h('td', {}, c.staleness_ns === null ? 'never used' : time(c.staleness_ns)));
  }

  private fate(fate: Fate | null): Child {
    if (!fate) return h('p', {}, 'Its eviction is not in the file.');
    if (fate.what === 'never') return h('p', {}, 'It was not needed again: nothing was paid for this eviction.');
    if (fate.what === 'freed')
      return h('p', {}, `It was freed ${time(fate.after_ns)} later, without being needed again: nothing was paid.`);
    return [
      h('p', {}, `Re-made ${time(fate.after_ns)} later`,
        fate.cause ? `, because ${opName(fate.cause)} needed it` : '',
        `, at a cost of ${time(fate.cost_ns)}`,
        fate.chain_runs !== null && fate.chain_runs > 1
          ? `. That replay was part of a chain of ${plural(fate.chain_runs, 'run')}, ${time(fate.chain_cost_ns)} in all.`
          : '.'),
      h('div.steps', {},
        h('button', { onclick: () => this.actions.open({ kind: 'execution', id: fate.execution }) },
          'Open the replay')),
    ];
  }

  // --- an operator run ---

  private execution(info: ExecutionInfo) {
    const e = info.execution;
    return {
      title: `${e.name || 'operator'} (${e.op})`,
      t: e.t,
      body: [
        h('p.lead', {}, e.replay ? this.why(info) : 'First run: the program called it.'),
        facts([
          ['at', instant(e.t)],
          ['took', time(e.dur_ns)],
          ['cost counted', time(e.cost_ns)],
          ['bytes in use', bytes(info.in_use)],
          ...shapes(info.outputs[0]?.op ?? null),
        ]),
        info.chain && section(`Chain of ${plural(info.chain.runs, 'run')}`,
          h('p.note', {}, `To bring back tensor ${info.chain.tensor.tensor}, ${time(info.chain.cost_ns)} were paid; `,
            `depth ${info.chain.max_depth}.`),
          this.executions(info.chain.executions, e.execution, info.chain.not_shown, true)),
        section('Inputs', this.tensors(info.inputs)),
        section('Outputs', this.tensors(info.outputs)),
        section('All runs of this operator',
          this.executions(info.all_executions, e.execution, info.all_executions_not_shown, false)),
      ] as Child[],
    };
  }

  private why(info: ExecutionInfo): string {
    const { depth } = info.execution;
    const cause = info.cause ? opName(info.cause) : 'the program';
    return depth > 0
      ? `Replay at depth ${depth}: ${cause}, itself being replayed, needed its output.`
      : `Replay: ${cause} needed its output, which had been evicted.`;
  }

  private executions(list: Execution[], current: number, notShown: number, indent: boolean): Child {
    return [
      h('ol.runs', {}, list.map((e) =>
        h(e.execution === current ? 'li.current' : 'li', {},
          h('span.depth', {}, indent ? '·'.repeat(Math.min(e.depth, 12)) : e.replay ? '↻' : '▸'),
          this.link(`${e.name || 'operator'} (${e.op})`, { kind: 'execution', id: e.execution }),
          h('span.sub', {}, `${e.replay ? 'replay' : 'first run'}, ${time(e.dur_ns)} at ${instant(e.t)}`)))),
      notShown > 0 && h('p.note', {}, `${plural(notShown, 'more run')} not shown.`),
    ];
  }

  private tensors(list: TensorRef[]): Child {
    if (list.length === 0) return h('p.empty', {}, 'None.');
    return h('ul.tensors', {}, list.map((t) =>
      h('li', {}, `tensor ${t.tensor}, `,
        t.storage === null ? 'unknown storage' : ['storage ', this.storageLink(t.storage)],
        t.view_of !== null ? `, a view of ${t.view_of}` : `, ${bytes(t.bytes)}`,
        h('span.sub', {}, t.constant ? 'constant' : `made by ${opName(t.op)}`))));
  }

  // --- a storage ---

  private storage(s: StorageInfo) {
    return {
      title: `Storage ${s.storage}`,
      t: s.created,
      body: [
        facts([
          ['size', bytes(s.bytes)],
          ['made by', s.op ? opName(s.op) : 'a constant'],
          ...shapes(s.op),
          ['created', instant(s.created)],
          ['re-made', s.remakes ? `${plural(s.remakes, 'time')}, ${time(s.remake_ns)} in all` : 'never'],
        ]),
        section('In memory', h('ol.runs', {}, s.stays.map(([from, to]) =>
          h('li', {}, h('button.link', { onclick: () => this.actions.show(from, to - from) },
            `${instant(from)} to ${instant(to)}`), h('span.sub', {}, time(to - from))))),
        s.stays_not_shown > 0 && h('p.note', {}, `${plural(s.stays_not_shown, 'more stay')} not shown.`)),
        section('Evictions', s.evictions.length === 0 ? h('p.empty', {}, 'Never evicted.')
          : h('ol.runs', {}, s.evictions.map((e) =>
            h('li', {}, e.decision === null ? instant(e.t)
              : this.link(instant(e.t), { kind: 'decision', id: e.decision }),
            h('span.sub', {}, REASONS[e.reason] ?? ''))))),
        section('Tensors on it', h('ul.tensors', {}, s.tensors.map((t) =>
          h('li', {}, `tensor ${t.tensor}`, t.view_of !== null && `, a view of ${t.view_of}`,
            h('span.sub', {}, t.op ? `made by ${opName(t.op)}` : 'constant'))))),
      ] as Child[],
    };
  }
}
