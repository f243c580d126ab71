// Reads every page of a list, so that a script gets the whole list and not the first page.

import type { PageOf } from '../../contract/api/schema.ts';
import { type Columns, printData, printItems, say } from '../output/output.ts';
import type { ApiCall, ApiClient, ApiReply } from './api-client.ts';
import { clientOf, type DaemonOptions } from './daemon-options.ts';

/** Most items per call. */
const pageMax = 100;

/** Passes each page to `onPage` until `limit` items came. Returns whether there are more. */
export async function readPages<T>(
  client: ApiClient,
  call: ApiCall,
  limit: number,
  onPage: (page: ApiReply<PageOf<T>>) => void,
): Promise<boolean> {
  let left = limit;
  const missing = new Set<string>();
  let cursor: string | undefined;
  while (left > 0) {
    const query = { ...call.query, limit: Math.min(left, pageMax), cursor };
    const page = await client.call<PageOf<T>>({ ...call, query, needs: ['items', 'nextCursor'] });
    onPage(page);
    for (const name of page.json.missing ?? []) {
      if (!missing.has(name)) say(`dq: ${name} does not answer; its items are not shown`);
      missing.add(name);
    }
    left -= page.json.items.length;
    if (page.json.nextCursor === null) return false;
    cursor = page.json.nextCursor;
  }
  return true;
}

/** The items of all pages. */
export async function readAllPages<T>(client: ApiClient, call: ApiCall): Promise<readonly T[]> {
  const items: T[] = [];
  await readPages<T>(client, call, Number.MAX_SAFE_INTEGER, ({ json }) => {
    items.push(...json.items);
  });
  return items;
}

/** Prints a list as a table, or its replies with --json. `what`: of the message that there are more than
 *  `limit`. */
export async function printPages<T>(
  flags: DaemonOptions,
  call: ApiCall,
  columns: Columns<T>,
  { limit = Number.MAX_SAFE_INTEGER, what = 'items' } = {},
): Promise<void> {
  const items: T[] = [];
  const hasMore = await readPages<T>(clientOf(flags), call, limit, ({ text, json }) => {
    if (flags.json) printData(text);
    else items.push(...json.items);
  });
  if (!flags.json) printItems(items, columns);
  if (hasMore) say(`dq: more than ${limit} ${what} match; raise --limit`);
}
