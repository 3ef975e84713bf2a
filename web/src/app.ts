// Starts the page: signs in, follows the address, shows the view that it names.

import { ApiError, ask, signIn } from './api/client';
import type { Files, RunInfo, Sweep } from './api/types';
import { format, HOME, type Place } from './lib/address';
import { h, replace } from './lib/dom';
import { navigation } from './state/place';
import { renderList, runHref, runTitle } from './views/list';
import { RunView } from './views/run';
import { SweepView } from './views/sweep';

const root = document.getElementById('app')!;
const content = h('div.content', {});
const crumbs = h('nav.crumbs', { 'aria-label': 'where' });

interface View {
  element: HTMLElement;
  stop?(): void;
  update?(place: Place, before: Place): void;
  key?(event: KeyboardEvent): boolean;
}

let files: Files | null = null;
let view: View | null = null;
let shown = '';

const keyOf = (p: Place): string => `${p.view}.${p.file}.${p.run}`;

async function open(place: Place): Promise<View> {
  files = await ask<Files>('files');
  if (place.view === 'run') {
    const info = await ask<RunInfo>('run', { file: place.file, run: place.run });
    document.title = `${runTitle(info.run)} – dtrscope`;
    return new RunView(place, info);
  }
  if (place.view === 'sweep') {
    document.title = 'Sweep – dtrscope';
    return new SweepView(await ask<Sweep>('sweep', { file: place.file }));
  }
  document.title = 'dtrscope';
  return { element: renderList(files) };
}

function renderCrumbs(place: Place): void {
  const info = files?.files[place.file];
  replace(crumbs,
    place.view !== 'list' && info ? [h('span.sep', {}, '/'), h('span', {}, info.name)] : null,
    place.view === 'run' && info !== undefined && info.runs.length > 1 && h('select', {
      'aria-label': 'run',
      onchange: (e: Event) => { location.hash = runHref(place.file, Number((e.target as HTMLSelectElement).value)); },
    }, info.runs.map((r) => h('option', { value: r.id, selected: r.id === place.run }, `run ${r.id}: ${runTitle(r)}`))));
}

function explain(error: Error): HTMLElement {
  const stranger = error instanceof ApiError && error.code === 401;
  return h('main.list', {}, h('h1', {}, stranger ? 'This page needs its token' : 'This cannot be shown'),
    h('p', {}, stranger
      ? 'Open the address that dtrscope serve printed. Its token changes with every start, so that other '
        + 'programs and pages cannot read your runs.'
      : error.message),
    !stranger && h('p', {}, h('a', { href: format(HOME) }, 'Back to the list of runs')));
}

async function show(place: Place): Promise<void> {
  const key = keyOf(place);
  shown = key;
  view?.stop?.();
  view = null;
  replace(content, h('p.loading', {}, 'Reading …'));
  let next: View;
  try {
    next = await open(place);
  } catch (error) {
    next = { element: explain(error as Error) };
  }
  if (shown !== key) return next.stop?.();
  view = next;
  renderCrumbs(place);
  replace(content, next.element);
}

/** With one run and nothing else to choose from, that run is the first page. */
function redirect(place: Place): Place {
  const only = files?.files.length === 1 ? files.files[0] : undefined;
  if (place.view !== 'list' || !only || location.hash.length > 1) return place;
  if (only.runs.length === 1 && only.sweep_runs === 0) return { ...place, view: 'run', run: only.runs[0]!.id };
  if (only.runs.length === 0 && only.sweep_runs > 0) return { ...place, view: 'sweep' };
  return place;
}

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.closest('input, select, textarea, dialog') || document.querySelector('dialog[open]')) return;
  if (view?.key?.(event)) event.preventDefault();
}

async function start(): Promise<void> {
  replace(root, h('header.top', {}, h('a.brand', { href: format(HOME) }, 'dtrscope'), crumbs), content);
  document.addEventListener('keydown', onKey);
  await signIn();
  navigation.start((place, before) => {
    if (keyOf(place) !== shown) void show(place);
    else view?.update?.(place, before);
  });
  try {
    files = await ask<Files>('files');
  } catch {
    files = null; // show() says why
  }
  const place = redirect(navigation.get());
  if (place !== navigation.get()) history.replaceState(null, '', format(place)), navigation.adjust(place);
  else await show(place);
}

void start();
