// Where the page is, kept in its address.  Moves within a view replace the entry, others add one.

import { format, HOME, parse, type Place } from '../lib/address';

export type Listener = (place: Place, before: Place) => void;

class Navigation {
  private place: Place = HOME;
  private listeners: Listener[] = [];
  private timer = 0;

  start(listener: Listener): void {
    this.listeners.push(listener);
    this.place = parse(location.hash);
    window.addEventListener('hashchange', () => this.move(parse(location.hash)));
  }

  get(): Place {
    return this.place;
  }

  /** Opens another view: one step in the browser's history. */
  open(place: Partial<Place>): void {
    location.hash = format({ ...HOME, ...place });
  }

  /** Changes what the current view shows; browsers limit how often, so it is written after a pause. */
  adjust(change: Partial<Place>): void {
    const next = { ...this.place, ...change };
    this.move(next);
    clearTimeout(this.timer);
    this.timer = window.setTimeout(
      () => history.replaceState(null, '', format(this.place)), 150);
  }

  private move(next: Place): void {
    const before = this.place;
    this.place = next;
    for (const listener of this.listeners) listener(next, before);
  }
}

export const navigation = new Navigation();
