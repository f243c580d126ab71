// Lists come by pages; a command that lists walks them, so that a script reads everything and not the first page.

import { say } from '../output/output.ts';
import type { ApiCall, ApiClient, ApiReply } from './api-client.ts';

interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  readonly missing?: readonly string[];
}

/** Most items that one call asks for. */
const pageMax = 100;

/** Hands over each page until `limit` items came. Answers whether there are more. */
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
      if (!missing.has(name)) say(`dq: ${name} does not answer; what it holds is not shown`);
      missing.add(name);
    }
    left -= page.json.items.length;
    if (page.json.nextCursor === null) return false;
    cursor = page.json.nextCursor;
  }
  return true;
}
