// Maps paths to screens over the History API. Filters are in the query: each state of a page is a link.

import { signal } from '@preact/signals';
import { base, type Query, queryText } from './api/call.ts';

export interface Place {
  /** decoded segments: ['topics', 'order.close'] */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

/** Segments of the path after the first. */
export interface Segments {
  readonly first?: string | undefined;
  readonly second?: string | undefined;
}

function read(): Place {
  const segments = location.pathname
    .slice(base.length)
    .split('/')
    .filter((part) => part !== '');
  return { path: segments.map(decode), query: new URLSearchParams(location.search) };
}

/** A link with a broken escape leads to the page that says so, not to an exception. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

export const place = signal(read());

/** What asks before the page changes; returns false to stay, and may call `leave` later. */
export const leaveCheck = { ask: (_leave: () => void): boolean => true };

/** Path of the console: href('topics', 'order.close') = /topics/order.close */
export function href(...path: readonly string[]): string {
  return `${base}/${path.map(encodeURIComponent).join('/')}`;
}

/** The same, with a query. */
export const hrefQuery = (path: readonly string[], query: Query): string => href(...path) + queryText(query);

/** Address of the page that is shown. */
let shown = location.href;

export function go(to: string, replace = false): void {
  if (leaveCheck.ask(() => move(to, replace))) move(to, replace);
}

function move(to: string, replace: boolean): void {
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  place.value = read();
  shown = location.href;
  if (!replace) scrollTo(0, 0);
}

/** Changes members of the query and stays on the page. */
export function setQuery(change: Query): void {
  const { path, query } = place.value;
  go(hrefQuery(path, { ...Object.fromEntries(query), ...change }), true);
}

addEventListener('popstate', () => {
  const to = location.href;
  if (leaveCheck.ask(() => move(to, false))) {
    place.value = read();
    shown = to;
  } else history.pushState(null, '', shown);
});
addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest('a');
  if (link === null || link === undefined || link.target !== '' || link.origin !== location.origin) return;
  if (link.hash !== '' && link.pathname === location.pathname) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
