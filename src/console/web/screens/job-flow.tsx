// What happened to a job, and what will: the points of its timeline, past ones from the record, planned ones
// from the API; and its flow, every change that dq knows, newest first.

import type { AuditEntryJson } from '../../../contract/api/access.ts';
import type { AttemptJson, FlowJson, JobJson } from '../../../contract/api/job.ts';
import type { PageOf } from '../../../contract/api/schema.ts';
import { isHeld, isOfClients } from '../../../core/job-why.ts';
import { topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may } from '../api/session.ts';
import type { TimelinePoint } from '../charts/timeline.tsx';
import { clock, duration, exactClock, relative } from '../format.ts';
import { List } from '../parts/list.tsx';
import { actorName, Card, type Colour, Pill } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t, type Word } from '../words/words.ts';
import { endOf, shortResult } from './job-attempts.tsx';

interface JobMark {
  /** epoch ms */
  readonly at: number;
  readonly action: string;
  readonly actor: string;
}

/** What operators did to one job. Only the scope admin may read the audit log, so other sessions get no
 *  marks. */
export function useJobMarks(topic: string, id: string): readonly JobMark[] {
  const path = may('admin') ? '/v1/audit' : null;
  const { data } = usePoll<PageOf<AuditEntryJson>>(path, 15_000, { topic, id, limit: '50' });
  return (data?.items ?? [])
    .filter(({ status }) => status < 300)
    .map(({ at, action, actor }) => ({ at: Date.parse(at), action, actor }));
}

/** Moves of operators on a timeline, by operation. */
const moves: Readonly<Record<string, Word>> = {
  runJob: 'run_now',
  rescheduleJob: 'reschedule',
  requeueJob: 'requeue',
  editJob: 'edit_job',
};

/** The newest ones; more would hide the attempts. */
const movesMax = 5;

/** By time. `marks`: what operators did to the job; those before its push are of an earlier job. */
export function pointsOf(job: JobJson, marks: readonly JobMark[]): readonly TimelinePoint[] {
  const now = daemonNow();
  const created = Date.parse(job.createdAt);
  const due = Date.parse(job.dueAt);
  const points: TimelinePoint[] = [{ at: created, kind: 'accepted', label: t('accepted') }];
  const [first] = job.attempts;
  // The due time of the first attempt, as long as its record is kept; later ones follow from the attempts.
  const firstDue =
    first === undefined
      ? due
      : first.latenessMs === undefined
        ? null
        : Date.parse(first.startedAt) - first.latenessMs;
  const isFirstKept = first === undefined || first.attempt === 1;
  // A future one is that of the next attempt.
  if (firstDue !== null && firstDue <= now && isFirstKept && firstDue - created > 999)
    points.push({ at: firstDue, kind: 'due', label: t('due') });
  for (const [n, attempt] of job.attempts.entries()) {
    const before = job.attempts[n - 1];
    const startedAt = Date.parse(attempt.startedAt);
    const late =
      attempt.latenessMs === undefined ? undefined : t('late_by', { time: duration(attempt.latenessMs) });
    const after =
      before === undefined ? late : t('after_time', { time: duration(startedAt - endOf(before)) });
    points.push({
      at: startedAt,
      kind: attempt.outcome === 'delivered' ? 'delivered' : 'failed',
      label: t('attempt_n', { n: attempt.attempt }),
      short: String(attempt.attempt),
      pill: shortResult(attempt) || t('job_done'),
      ...(after === undefined
        ? {}
        : { note: n === 0 || isLate(attempt.latenessMs) ? (late ?? after) : after }),
    });
  }
  const shown = marks.filter(({ at, action }) => moves[action] !== undefined && at >= created);
  for (const { at, action, actor } of shown.slice(0, movesMax)) {
    const word = moves[action];
    if (word !== undefined)
      points.push({ at, kind: 'move', label: t(word), short: '', note: actorName(actor) });
  }
  if (job.endedAt !== undefined) {
    if (job.state !== 'done')
      points.push({
        at: Date.parse(job.endedAt),
        kind: 'ended',
        label: t(`job_${job.state}`),
      });
  } else if (job.state === 'dead')
    points.push({ at: Date.parse(job.deadAt ?? job.dueAt), kind: 'dead', label: t('dead_letter') });
  else points.push(...comingPoints(job, now));
  return points.toSorted((a, b) => a.at - b.at);
}

const isLate = (ms: number | undefined): boolean => ms !== undefined && ms >= 1_000;

function comingPoints(job: JobJson, now: number): TimelinePoint[] {
  const points: TimelinePoint[] = [{ at: now, kind: 'now', label: t('now') }];
  // The start of a call of another instance, or of a client, is not known.
  if (job.state === 'reserved')
    points.push({
      at: Math.min(now - 1, job.why.since == null ? now - 1 : Date.parse(job.why.since)),
      kind: 'running',
      label: t('attempt_n', { n: job.attempt + 1 }),
      short: String(job.attempt + 1),
    });
  // Attempts of a held job have no time: they follow when its topic is resumed or registered. Clients decide
  // about those that they pull.
  const planned = isHeld(job.why) || isOfClients(job.why) ? [] : (job.nextAttempts ?? []);
  if (isHeld(job.why) && job.state === 'delayed')
    points.push({ at: Math.max(Date.parse(job.dueAt), now + 1), kind: 'due', label: t('due') });
  for (const [n, { attempt, at }] of planned.entries()) {
    const time = Math.max(Date.parse(at), now + 1 + n);
    const isNext = n === 0 && job.state !== 'reserved';
    const short = String(attempt);
    if (isNext)
      points.push({
        at: time,
        kind: 'next',
        label: t('attempt_n', { n: attempt }),
        short,
        pill: t('next_time'),
        ...(job.state === 'ready' ? { time: t('time_soon') } : { time: relative(time), note: clock(time) }),
      });
    // The last one is named by what follows it.
    else if (attempt === job.maxAttempts)
      points.push({
        at: time,
        kind: 'planned',
        label: t('if_all_fail'),
        short,
        pill: t('legend_planned'),
        time: `${t('dead_letter')} ${clock(time)}`,
      });
    else points.push({ at: time, kind: 'planned', label: t('attempt_n', { n: attempt }), short });
  }
  return points;
}

const colours: Readonly<Partial<Record<Entry['event'], Colour>>> = {
  accepted: 'delayed',
  retried: 'retry',
  dead: 'dead',
  done: 'done',
  restored: 'ready',
};

type Entry = FlowJson['entries'][number];

/** `isOptional`: shows nothing for a job without any. */
export function JobFlow({
  topic,
  id,
  isOptional = false,
}: {
  topic: string;
  id: string;
  isOptional?: boolean;
}) {
  const { data, error } = usePoll<FlowJson>(topicPath(topic, 'jobs', id, 'flow'), 5_000);
  if (data === null && (isOptional || error?.status === 404)) return null;
  return (
    <Card title={t('flow')} note={data === null ? '' : t(data.journal ? 'flow_note' : 'flow_no_journal')}>
      <List
        items={data?.entries.toReversed() ?? null}
        error={error}
        rows={3}
        empty=""
        keyOf={({ at, event, version }) => `${at} ${event} ${version}`}
        columns={{
          time: {
            head: t('time'),
            cell: ({ at }) => <Time class="num" at={at} text={exactClock} />,
            card: ({ at }) => <Time class="faint num" at={at} />,
          },
          event: { head: t('flow_event'), cell: Event },
          version: { head: t('version'), look: 'mono soft', cell: ({ version }) => version },
          due: {
            head: t('due'),
            cell: ({ dueAt }) =>
              dueAt === null ? '' : <Time class="num soft" at={dueAt} text={exactClock} />,
          },
          by: {
            head: t('flow_by'),
            look: 'soft',
            cell: byOf,
            card: (entry) => <span class="grow">{byOf(entry)}</span>,
          },
          shard: { head: t('shard'), look: 'mono faint', cell: ({ place }) => place },
        }}
        card={{ row: ['event', 'by', 'time'] }}
      />
    </Card>
  );
}

function Event({ event, attempt }: Entry) {
  const word = t(`flow_${event}`);
  return (
    <Pill colour={colours[event] ?? 'quiet'}>
      {attempt === null ? word : `${word}: ${resultOf(attempt)}`}
    </Pill>
  );
}

function resultOf(attempt: AttemptJson): string {
  const result = shortResult(attempt);
  return result === '' ? String(attempt.attempt) : result;
}

const byOf = ({ process, host }: Entry): string =>
  process !== null && host !== null ? t('attempt_by', { notifier: process, host }) : (process ?? host ?? '');
