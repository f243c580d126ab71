// Reads every page of a list, so that a script gets the whole list and not the first page.

import { say } from '../output/output.ts';
import type { ApiCall, ApiClient, ApiReply } from './api-client.ts';

interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  readonly missing?: readonly string[];
}

/** Most items per call. */
const pageMax = 100;

/** Passes each page to `onPage` until `limit` items came. Returns whether there are more. */
export async function readPages<T>(
  client: ApiClient,
  call: ApiCall,
  limit: number,
  onPage: (page: ApiReply<Page<T>>) => void,
): Promise<boolean> {
  let left = limit;
  const missing = new Set<string>();
  let cursor: string | undefined;
  while (left > 0) {
    const query = { ...call.query, limit: Math.min(left, pageMax), cursor };
    const page = await client.call<Page<T>>({ ...call, query, needs: ['items', 'nextCursor'] });
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
