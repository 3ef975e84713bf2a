// Tables: numbers to the right, rows that can be opened with mouse and keyboard.

import { h } from '../lib/dom';
import type { Pick } from '../lib/address';
import type { Table } from '../draw/track';

export function renderTable(table: Table, open: (pick: Pick) => void): HTMLElement {
  const body = h('tbody', {});
  for (const row of table.rows) {
    const tr = h('tr', {}, row.cells.map((cell, i) => {
      const content = i === 0 && row.pick
        ? h('button.link', { onclick: () => open(row.pick!) }, cell)
        : cell;
      return h(i === 0 ? 'th' : 'td', i === 0 ? { scope: 'row' } : {}, content);
    }));
    body.append(tr);
  }
  return h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': table.caption },
    h('table', {}, h('caption', {}, table.caption),
      h('thead', {}, h('tr', {}, table.head.map((c) => h('th', { scope: 'col' }, c)))), body),
    table.rows.length === 0 && h('p.empty', {}, 'Nothing in this window. Press f to see the whole run.'));
}
