// Building elements.  Strings become text nodes, never markup.

export type Child = Node | string | null | false | Child[];

type Attributes = Record<string, string | number | boolean | null | ((event: never) => void)>;

function append(parent: Node, child: Child): void {
  if (child === null || child === false) return;
  if (Array.isArray(child)) child.forEach((c) => append(parent, c));
  else parent.appendChild(typeof child === 'string' ? document.createTextNode(child) : child);
}

/** h('button.primary', { onclick: f, disabled: true }, 'text') */
export function h<K extends keyof HTMLElementTagNameMap>(
  spec: K | `${K}.${string}`, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const [tag, ...classes] = spec.split('.');
  const element = document.createElement(tag as K);
  if (classes.length) element.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== null && value !== false) element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

export function replace(parent: HTMLElement, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

/** Says something to screen readers. */
export function say(text: string): void {
  const live = document.getElementById('live');
  if (live) live.textContent = text;
}
