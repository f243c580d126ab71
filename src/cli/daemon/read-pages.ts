// Reads every page of a list, so that a script gets the whole list and not the first page.

import type { PageOf } from '../../contract/api/schema.ts';
import type { StatsJson, TopicStatsJson } from '../../contract/api/stats.ts';
import type { JobState } from '../../core/job.ts';
import { leavingName } from '../../core/left-behind.ts';
import { type Columns, printData, printItems, say } from '../output/output.ts';
import { type ApiCall, type ApiClient, ApiRefusal, type ApiReply } from './api-client.ts';
import { clientOf, type DaemonOptions } from './daemon-options.ts';

/** Most items per call. */
const pageMax = 100;

/** Says which parts an answer is without; `said`: the parts that were named before. */
export function sayMissing(
  names: readonly string[] | undefined,
  how: 'shown' | 'counted',
  said: Set<string> = new Set(),
): void {
  for (const name of names ?? []) {
    if (said.has(name)) continue;
    said.add(name);
    say(
      name === leavingName
        ? `dq: what ${name} still holds is not ${how}; dq move brings it to Redis`
        : `dq: ${name} does not answer; what it holds is not ${how}`,
    );
  }
}

/** Passes each page to `onPage` until `limit` items came. Returns whether there are more. */
export async function readPages<T>(
  client: ApiClient,
  call: ApiCall,
  limit: number,
  onPage: (page: ApiReply<PageOf<T>>) => void,
  missing = new Set<string>(),
): Promise<boolean> {
  let left = limit;
  let cursor: string | undefined;
  while (left > 0) {
    const query = { ...call.query, limit: Math.min(left, pageMax), cursor };
    const page = await client.call<PageOf<T>>({ ...call, query, needs: ['items', 'nextCursor'] });
    onPage(page);
    sayMissing(page.json.missing, 'shown', missing);
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

/** Stored jobs in these states, of one topic or of all; null where this token may not read them. */
export async function countJobs(
  client: ApiClient,
  topic: string | undefined,
  states: readonly JobState[],
): Promise<number | null> {
  const path = topic === undefined ? ['v1', 'stats'] : ['v1', 'topics', topic, 'stats'];
  try {
    const { json } = await client.call<StatsJson | TopicStatsJson>({ path, needs: ['states'] });
    return states.reduce((sum, state) => sum + json.states[state], 0);
  } catch (error) {
    if (error instanceof ApiRefusal) return null;
    throw error;
  }
}

interface PagesShown {
  readonly limit?: number;
  /** of the message that there are more than `limit` */
  readonly what?: string;
  /** how many match; null: unknown */
  readonly countOf?: (client: ApiClient) => Promise<number | null>;
}

/** Prints lists as one table, or their replies with --json. */
export async function printPages<T>(
  flags: DaemonOptions,
  calls: ApiCall | readonly ApiCall[],
  columns: Columns<T>,
  { limit = Number.MAX_SAFE_INTEGER, what = 'items', countOf = async () => null }: PagesShown = {},
): Promise<void> {
  const client = clientOf(flags);
  const items: T[] = [];
  let left = limit;
  let hasMore = false;
  const missing = new Set<string>();
  for (const call of [calls].flat() as readonly ApiCall[]) {
    if (hasMore) break;
    // One item more than the limit tells whether this list has any.
    const onPage = ({ text, json }: ApiReply<PageOf<T>>): void => {
      if (flags.json) printData(text);
      else items.push(...json.items);
      left -= json.items.length;
    };
    hasMore = await readPages<T>(client, call, Math.max(left, 1), onPage, missing);
    hasMore ||= left < 0;
  }
  if (!flags.json) printItems(items.slice(0, limit), columns);
  if (!hasMore) return;
  const count = await countOf(client);
  say(
    count === null
      ? `dq: more than ${limit} ${what} match; raise --limit`
      : `dq: ${limit} of ${count} ${what} are shown; raise --limit`,
  );
}
