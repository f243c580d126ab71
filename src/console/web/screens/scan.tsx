// A search by id prefix or body: asks for one page after the other until the store has examined all jobs, the
// user stops it or enough jobs are found. Shows its progress.

import { useEffect, useState } from 'preact/hooks';
import type { JobSummaryJson } from '../../../contract/api/job.ts';
import type { PageOf } from '../../../contract/api/schema.ts';
import { type CallError, get, type Query } from '../api/call.ts';
import type { Pages } from '../api/poll.ts';
import { number } from '../format.ts';
import { Bar, Button } from '../parts/parts.tsx';
import { t } from '../words/words.ts';

interface ScanPage extends PageOf<JobSummaryJson> {
  readonly scanned: { readonly jobs: number; readonly of: number };
}

interface State {
  readonly items: readonly JobSummaryJson[] | null;
  readonly next: string | null;
  readonly jobs: number;
  readonly of: number;
  readonly missing: readonly string[];
  readonly error: CallError | null;
  /** jobs to find before it waits for the user */
  readonly goal: number;
  readonly isStopped: boolean;
}

const step = 50;
const start: State = {
  items: null,
  next: null,
  jobs: 0,
  of: 0,
  missing: [],
  error: null,
  goal: step,
  isStopped: false,
};
/** Wait before a rejected call is repeated: another search ends within this time. */
const busyMs = 1_000;

export interface Scanning extends Pages<JobSummaryJson> {
  readonly progress: { readonly jobs: number; readonly of: number; readonly isRunning: boolean };
  readonly stop: () => void;
}

/** `query` null: no search. */
export function useScan(query: Query | null): Scanning {
  const [state, setState] = useState(start);
  const [round, setRound] = useState(0);
  const key = JSON.stringify([query, round]);
  // Without this the first drawing of another search would show the jobs of the one before.
  const [shownKey, setShownKey] = useState(key);
  const { items, next, error, isStopped, goal } = shownKey === key ? state : start;
  const isAtEnd = items !== null && next === null;
  const isRunning = query !== null && !isAtEnd && !isStopped && error === null && (items?.length ?? 0) < goal;
  useEffect(() => {
    setShownKey(key);
    setState(start);
  }, [key]);
  useEffect(() => {
    if (!isRunning || query === null || shownKey !== key) return;
    let ended = false;
    let timer = 0;
    const ask = (): void => {
      get<ScanPage>('/v1/jobs', { ...query, limit: String(step), cursor: next ?? undefined }).then(
        (page) => {
          if (!ended) setState((last) => withPage(last, page));
        },
        (problem: CallError) => {
          if (ended) return;
          if (problem.code === 'survey_busy') timer = window.setTimeout(ask, busyMs);
          else setState((last) => ({ ...last, error: problem }));
        },
      );
    };
    ask();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [key, shownKey, next, isRunning]);
  const canGoOn = items !== null && next !== null && !isRunning;
  return {
    items,
    error,
    missing: state.missing,
    more: canGoOn
      ? () => setState((last) => ({ ...last, isStopped: false, goal: (last.items?.length ?? 0) + step }))
      : null,
    refresh: () => setRound(round + 1),
    progress: { jobs: state.jobs, of: Math.max(state.of, state.jobs), isRunning },
    stop: () => setState((last) => ({ ...last, items: last.items ?? [], isStopped: true })),
  };
}

/** A job may be in two pages. */
function withPage(last: State, { items, nextCursor, scanned, missing = [] }: ScanPage): State {
  const all = new Map((last.items ?? []).map((job) => [`${job.topic} ${job.id}`, job]));
  for (const job of items) all.set(`${job.topic} ${job.id}`, job);
  return {
    ...last,
    items: [...all.values()],
    next: nextCursor,
    jobs: last.jobs + scanned.jobs,
    of: scanned.of,
    missing: [...new Set([...last.missing, ...missing])],
  };
}

/** Nothing once every job was examined. */
export function ScanProgress({ scan, isBody }: { scan: Scanning; isBody: boolean }) {
  const { jobs, of, isRunning } = scan.progress;
  if (scan.error !== null || (!isRunning && scan.more === null)) return null;
  const percent = of === 0 ? 0 : Math.min(100, Math.round((100 * jobs) / of));
  return (
    <div class="body">
      <div class="fields soft">
        <span>
          {t(isBody ? 'searching_bodies' : 'searching_ids', { jobs: number(jobs), of: number(of) })}
        </span>
        {isRunning ? (
          <Button look="s" onClick={scan.stop}>
            {t('stop_search')}
          </Button>
        ) : null}
      </div>
      <div class="spaced">
        <Bar share={percent / 100} colour="accent" label={t('searched_percent', { percent })} />
      </div>
    </div>
  );
}
