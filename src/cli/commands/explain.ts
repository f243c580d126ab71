// dq explain: why a job waits, or why the jobs of a topic are not called.

import type { Command } from 'commander';
import type { DeadLetterJson } from '../../contract/api/dead.ts';
import type { CapacityReasonJson, JobJson } from '../../contract/api/job.ts';
import type { PageOf } from '../../contract/api/schema.ts';
import type { CapacityJson } from '../../contract/api/topic.ts';
import { formatDuration } from '../../core/duration.ts';
import { isHeld, type WhyCode } from '../../core/job-why.ts';
import { wallNow } from '../../runtime/time.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { excerpt, printData, printRecord, shownInstant, words } from '../output/output.ts';

const excerptMax = 80;

export function register(program: Command): void {
  daemonCommand(program, 'explain', 'show why a job waits, or why a topic is not called', explain)
    .argument('<topic>')
    .argument('[id]');
}

async function explain(topic: string, id: string | undefined, flags: DaemonOptions): Promise<void> {
  if (id === undefined) {
    const { json } = await ask<CapacityJson>(flags, capacityCall(topic));
    if (flags.json) return;
    printRecord([
      ['topic', topic],
      ...capacityLines(json).map((line) => ['delivery', line] as const),
      ...(await lastDeath(topic, json, flags)),
    ]);
    return;
  }
  const path = ['v1', 'topics', topic, 'jobs', id];
  const { json: job, at } = await clientOf(flags).call<JobJson>({ path, needs: ['state', 'why'] });
  const { state, why, nextAttempts = [] } = job;
  if (flags.json) printData(JSON.stringify({ topic, id, state, why, nextAttempts }));
  else printRecord([['topic', topic], ['id', id], ['state', state], ...linesOf(job, at ?? wallNow())]);
}

/** Of a topic that has no job to call, but dead ones. */
async function lastDeath(
  topic: string,
  { states }: CapacityJson,
  flags: DaemonOptions,
): Promise<readonly (readonly [string, string])[]> {
  if (states === null || states.ready > 0 || states.dead === 0) return [];
  const { json } = await clientOf(flags).call<PageOf<DeadLetterJson>>({
    path: ['v1', 'dead'],
    query: { topic, limit: 1 },
    needs: ['items'],
  });
  return json.items.map(({ id, reason, lastReason, status, replyExcerpt }) => [
    'last dead',
    `${id}: ${words(reason, lastReason, status, excerpt(replyExcerpt ?? '', excerptMax))}`,
  ]);
}

/** `now`: the daemon's clock, epoch ms. */
export function linesOf(job: JobJson, now: number): readonly (readonly [string, string])[] {
  const { why, nextAttempts = [] } = job;
  const last = job.attempts.at(-1);
  const next = isHeld(why) || byClients.has(why.code) ? undefined : nextAttempts[0];
  return [
    ['why', sentenceOf(job, now)],
    ...pastDeadline(job, now),
    ...(why.held === undefined ? [] : [['then', holds[why.held] ?? why.held] as const]),
    ...(why.code === 'ahead' || !why.ahead ? [] : [['before it', `${why.ahead} jobs of its topic`] as const]),
    ...(why.reasons ?? []).map((reason) => ['delivery', reasonLine(reason)] as const),
    ...(last === undefined
      ? []
      : [
          ['last attempt', `${last.attempt}: ${resultOf(last)}, at ${shownInstant(last.startedAt)}`] as const,
        ]),
    ...(next === undefined
      ? []
      : [['next attempt', `${next.attempt} of ${job.maxAttempts ?? '?'}${atTime(next.at, now)}`] as const]),
  ];
}

/** Clients decide when the next attempt begins. */
const byClients: ReadonlySet<WhyCode> = new Set(['waits_for_pull', 'at_pull_leases', 'pulled']);

/** '' for a time that has come: what the job waits for decides when. */
const atTime = (at: string, now: number): string => (Date.parse(at) > now ? `, at ${shownInstant(at)}` : '');

/** dq finds it when the turn of the job comes. A job that was moved behind its deadline has none. */
function pastDeadline(
  { state, dueAt, deadline, why }: JobJson,
  now: number,
): readonly (readonly [string, string])[] {
  if (deadline === undefined || !['delayed', 'ready'].includes(state)) return [];
  if (Date.parse(deadline) >= now || Date.parse(dueAt) > Date.parse(deadline)) return [];
  const end = (why.held ?? why.code) === 'not_registered' ? 'registered' : 'resumed';
  const when = isHeld(why) ? `when the topic is ${end}` : 'when its turn comes';
  return [['deadline', `its deadline ${shownInstant(deadline)} has passed: it dies ${when}`]];
}

const resultOf = ({ outcome, reason, status, detail }: JobJson['attempts'][number]): string =>
  words(outcome, reason, status, detail);

type Sentences = Readonly<Partial<Record<WhyCode, string>>>;

const holds: Sentences = {
  topic_paused: 'its topic is paused, so dq holds it',
  topic_offline: 'its topic is offline, so dq holds it',
  not_registered: 'its topic is not registered, so dq holds it',
};
/** Other codes without numbers. */
const sentences: Sentences = {
  at_concurrency: 'it is due and waits for a free slot',
  at_pull_leases: 'it is due; clients hold too many unanswered jobs of its topic',
  at_rate: 'it is due and waits for the rate of its topic',
  probing: 'it is due; the endpoint hangs or is unreachable, so dq makes only a few calls at once',
  leased:
    'a notifier has reserved it, and none of this instance says that it calls it: another instance calls it, or dq returns it when its lease ends',
  store_away: 'it is due; the store gives the notifiers no jobs',
  healing:
    'it is due; Redis lost changes, and dq holds its jobs until cancelled ones that came back are removed',
  held: 'it is due; the notifiers hold its topic',
  no_notifier: 'it is due; no notifier of this instance that may call it is ready',
  unknown: 'it is due; no answer about what holds it',
};

function sentenceOf({ state, attempt, maxAttempts, buryReason, why }: JobJson, now: number): string {
  const max = maxAttempts ?? '?';
  const at = why.at ?? '';
  const shown = at === '' ? '' : shownInstant(at);
  switch (why.code) {
    case 'waits_until_due':
    case 'waits_to_retry':
      return Date.parse(at) > now
        ? `attempt ${attempt + 1} of ${max} is due at ${shown}, in ${until(at, now)}`
        : `attempt ${attempt + 1} of ${max} has been due since ${shown}`;
    case 'not_promoted':
      return `attempt ${attempt + 1} of ${max} was due ${ago(at, now)} ago, at ${shown}, and dq-timer, or dq-upkeep with profile small, has not made it ready (dq status shows the process; dq fsck names damaged records)`;
    case 'ahead':
      return why.ahead == null
        ? 'it is due and starts soon'
        : `it is due; ${why.ahead} jobs of its topic go first`;
    case 'running':
      return words(
        `attempt ${attempt + 1} of ${max} is running`,
        why.since && `since ${shownInstant(why.since)}`,
        why.notifier && `in ${why.notifier}`,
      );
    case 'dead':
      return `dead letter since ${shown}: ${buryReason ?? 'no attempt follows'}`;
    case 'ended':
      return `${state} since ${shown}`;
    default:
      return sentences[why.code] ?? `it is due; ${holds[why.code] ?? why.code}`;
  }
}

/** Rounds down, because the clock of a reply has lost its part of a second. */
const until = (at: string, now: number): string => wholeSeconds(Date.parse(at) - now);
const ago = (at: string, now: number): string => wholeSeconds(now - Date.parse(at));
const wholeSeconds = (ms: number): string => formatDuration(Math.max(0, Math.floor(ms / 1_000)) * 1_000);

const capacityCall = (topic: string) =>
  ({ path: ['v1', 'topics', topic, 'capacity'], needs: ['notifiers'] }) as const;

/** For `dq topic get`: why its jobs are not called, as rows of a record. Empty without a usable reply:
 *  unavailable notifiers, a cut connection. */
export async function deliveryLines(
  topic: string,
  flags: DaemonOptions,
): Promise<readonly (readonly [name: string, text: string])[]> {
  const reply = await clientOf(flags)
    .call<CapacityJson>(capacityCall(topic))
    .catch((error: unknown) => {
      if (error instanceof Exit) return null;
      throw error;
    });
  return reply === null ? [] : capacityLines(reply.json).map((line) => ['delivery', line]);
}

/** A line per reason and notifier; at least one. */
function capacityLines({ reasons, notifiers }: CapacityJson): readonly string[] {
  const lines = [
    ...reasons.map(reasonLine),
    ...notifiers.flatMap(({ notifier, reasons: own }) =>
      (own === null ? ['does not answer; dq status shows the processes'] : own.map(reasonLine)).map(
        (line) => `${notifier}: ${line}`,
      ),
    ),
  ];
  return lines.length === 0 ? ['nothing keeps its jobs back'] : lines;
}

const reasonLine = ({ message, remedy }: CapacityReasonJson): string => `${message} (${remedy})`;
