// Polls a call while the page is visible. After a failure it keeps the data of the last reply. Of a list the
// first page is polled; further ones are read when they are asked for. New data of the first page replace
// everything only while no further page is shown.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { PageOf } from '../../../contract/api/schema.ts';
import { type CallError, get, LastReply, type Query, retryMs } from './call.ts';

export interface Polled<T> {
  /** null before the first reply */
  readonly data: T | null;
  /** of the newest call; null: it succeeded */
  readonly error: CallError | null;
  /** epoch ms by the browser's clock of the newest reply, and of its call; null = none */
  readonly at: number | null;
  readonly sentAt: number | null;
  /** Calls now. */
  readonly refresh: () => void;
  /** Shows what another call returned, until the next poll. */
  readonly take: (data: T) => void;
}

const all = new EventTarget();
const nothing = { data: null, error: null, at: null, sentAt: null };

/** Every poll of the page calls now. */
export function refreshAll(): void {
  all.dispatchEvent(new Event('refresh'));
}

/** Returns the function that ends it. */
export function onRefreshAll(act: () => void): () => void {
  all.addEventListener('refresh', act);
  return () => all.removeEventListener('refresh', act);
}

/** `path` null: no call. `everyMs` may depend on the data. */
export function usePoll<T>(
  path: string | null,
  everyMs: number | ((data: T) => number),
  query: Query = {},
): Polled<T> {
  const [state, setState] = useState<Omit<Polled<T>, 'refresh' | 'take'>>(nothing);
  const refresh = useRef(() => {});
  /** calls of take() so far */
  const taken = useRef(0);
  // The newest one counts, without a new start of the polling.
  const period = useRef(everyMs);
  period.current = everyMs;
  const key = JSON.stringify([path, query]);
  useEffect(() => {
    setState(nothing);
    if (path === null) return;
    let ended = false;
    let timer = 0;
    let failures = 0;
    let running = false;
    // Asked for during a call, whose answer may be older.
    let again = false;
    const last = new LastReply();
    const look = async (): Promise<void> => {
      if (running) again = true;
      if (running || ended || document.hidden) return;
      running = true;
      clearTimeout(timer);
      let waitMs: number;
      const sentAt = Date.now();
      const takenBefore = taken.current;
      try {
        const data = await get<T>(path, query, last);
        failures = 0;
        const { current } = period;
        waitMs = typeof current === 'number' ? current : current(data);
        // take() has shown what is newer, and asked for the next call.
        if (!ended && taken.current === takenBefore) setState({ data, error: null, at: Date.now(), sentAt });
      } catch (error) {
        waitMs = retryMs(failures);
        failures += 1;
        if (!ended) setState((last) => ({ ...last, error: error as CallError }));
      }
      running = false;
      if (!ended) timer = window.setTimeout(look, again ? 0 : waitMs);
      again = false;
    };
    const onVisible = (): void => void look();
    refresh.current = onVisible;
    document.addEventListener('visibilitychange', onVisible);
    all.addEventListener('refresh', onVisible);
    void look();
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisible);
      all.removeEventListener('refresh', onVisible);
    };
  }, [key]);
  const take = (data: T): void => {
    taken.current += 1;
    setState((last) => ({ ...last, data }));
    // The answer of a call that runs may be older.
    refresh.current();
  };
  return { ...state, refresh: () => refresh.current(), take };
}

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
