// Reads a list page by page: the first page is polled, further ones are read when they are asked for. New
// data of the first page replace everything only while no further page is shown.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { PageOf } from '../../contract/api/schema.ts';
import { type CallError, get, type Query } from './api/call.ts';
import { usePoll } from './api/poll.ts';

export interface Pages<T> {
  /** null before the first reply */
  readonly items: readonly T[] | null;
  readonly error: CallError | null;
  /** Reads the next page; null: this is all. */
  readonly more: (() => void) | null;
  readonly missing: readonly string[];
  readonly refresh: () => void;
}

/** `path` null: no call. */
export function usePages<T>(path: string | null, query: Query, everyMs: number): Pages<T> {
  const [further, setFurther] = useState<{ items: readonly T[]; next: string | null } | null>(null);
  const [error, setError] = useState<CallError | null>(null);
  // With further pages on the screen the first one stays as it is: rows must not move under the pointer.
  const first = usePoll<PageOf<T>>(path, further === null ? everyMs : 3_600_000, query);
  const key = JSON.stringify([path, query]);
  const shown = useRef(key);
  shown.current = key;
  useEffect(() => setFurther(null), [key]);
  const next = further === null ? (first.data?.nextCursor ?? null) : further.next;
  const more = (): void => {
    if (path === null) return;
    get<PageOf<T>>(path, { ...query, cursor: next ?? undefined })
      .then((page) => {
        // The filter was changed meanwhile.
        if (shown.current !== key) return;
        setError(null);
        setFurther({ items: [...(further?.items ?? []), ...page.items], next: page.nextCursor });
      })
      .catch((problem: CallError) => setError(problem));
  };
  return {
    items: first.data === null ? null : [...first.data.items, ...(further?.items ?? [])],
    error: first.error ?? error,
    more: next === null ? null : more,
    missing: first.data?.missing ?? [],
    refresh: () => {
      setFurther(null);
      first.refresh();
    },
  };
}
