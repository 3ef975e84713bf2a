// The first page: which runs and sweeps are there.

import type { Files, FileInfo, Run } from '../api/types';
import { h } from '../lib/dom';
import { bytes, count, factor, plural } from '../lib/format';
import { format, HOME } from '../lib/address';

const baseName = (path: string): string => path.split('/').pop() ?? path;

export const runTitle = (run: Run): string =>
  run.program ?? (run.trace ? baseName(run.trace) : `run ${run.id}`);

export const RESULTS: Record<string, string> = {
  ok: 'finished', out_of_memory: 'out of memory', thrashed: 'thrashed', running: 'still running',
  failed: 'failed', killed: 'killed',
};

const HEAD: [string, 'text' | 'number'][] = [
  ['run', 'text'], ['kind', 'text'], ['heuristic', 'text'], ['budget', 'number'], ['peak', 'number'],
  ['slowdown', 'number'], ['evictions', 'number'], ['replays', 'number'], ['result', 'text'],
];

export function runHref(file: number, run: number): string {
  return format({ ...HOME, view: 'run', file, run });
}

function runRow(file: number, run: Run): HTMLElement {
  return h('tr', {},
    h('th', { scope: 'row' }, h('a', { href: runHref(file, run.id) }, runTitle(run))),
    h('td.text', {}, run.kind === 'live' ? 'recorded' : 'simulated'),
    h('td.text', {}, run.heuristic ?? '–'),
    h('td', {}, run.budget_bytes === null ? 'no limit' : bytes(run.budget_bytes)),
    h('td', {}, bytes(run.peak_bytes)),
    h('td', {}, factor(run.slowdown)),
    h('td', {}, count(run.evictions)),
    h('td', {}, count(run.rematerializations)),
    h('td.text', {}, RESULTS[run.result] ?? run.result));
}

function file(info: FileInfo): HTMLElement {
  return h('section.card', {},
    h('h2', {}, info.name),
    info.sweep_runs > 0 && h('p', {},
      h('a.primary', { href: format({ ...HOME, view: 'sweep', file: info.file }) },
        `Sweep: ${plural(info.sweep_runs, 'simulated run')}`)),
    info.runs.length > 0 && h('div.scroll', {}, h('table.runs-of', {},
      h('thead', {}, h('tr', {},
        HEAD.map(([name, kind]) => h(kind === 'text' ? 'th.text' : 'th', { scope: 'col' }, name)))),
      h('tbody', {}, info.runs.map((run) => runRow(info.file, run))))),
    info.not_shown > 0 && h('p.note', {}, `${plural(info.not_shown, 'more run')} not shown.`),
    info.runs.length === 0 && info.sweep_runs === 0 && h('p.empty', {},
      'This file has no run yet. Fill it with `dtrscope record` or `dtrscope sweep`.'));
}

export function renderList(files: Files): HTMLElement {
  return h('main.list', {}, h('h1', {}, 'Runs'), files.files.map(file));
}
