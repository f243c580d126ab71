// dq explain: which topics need attention; what the receiver of a topic does and what holds its jobs; why a
// job waits.

import type { Command } from 'commander';
import type { DeadLetterJson } from '../../contract/api/dead.ts';
import type { CapacityReasonJson, JobJson } from '../../contract/api/job.ts';
import type { PageOf } from '../../contract/api/schema.ts';
import type { SummaryJson } from '../../contract/api/stats.ts';
import type { CapacityJson } from '../../contract/api/topic.ts';
import { wholeSeconds } from '../../core/duration.ts';
import { type HeldCode, isHeld, isOfClients, type WhyCode } from '../../core/job-why.ts';
import { wallNow } from '../../runtime/time.ts';
import { storeLimits } from '../../store/limits.ts';
import { ApiRefusal } from '../daemon/api-client.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit, joined } from '../exit.ts';
import {
  escapeControls,
  excerpt,
  instantOf,
  printData,
  printItems,
  printRecord,
  say,
  shownInstant,
  words,
} from '../output/output.ts';
import { causeOf, commandOf, lateBy, times, topicLine, troubleLine, waiting } from '../output/topic-words.ts';

const excerptMax = 80;

export function register(program: Command): void {
  daemonCommand(program, 'explain', 'show which topics need attention, or why one or a job waits', explain)
    .argument('[topic]')
    .argument('[id]');
}

async function explain(topic: string | undefined, id: string | undefined, flags: DaemonOptions) {
  if (topic === undefined) await explainAll(flags);
  else if (id === undefined)
    await explainTopic(topic, flags).catch((error: unknown) => {
      if (!(error instanceof ApiRefusal) || error.problem.code !== 'topic_not_found') throw error;
      throw new Exit('notFound', joined(error.message, `dq ls --id ${topic}, if it is the id of a job`));
    });
  else await explainJob(topic, id, flags);
}

async function explainAll(flags: DaemonOptions): Promise<void> {
  const { json } = await ask<SummaryJson>(flags, {
    path: ['v1', 'summary'],
    needs: ['attention', 'attentionCount', 'topics', 'at', 'now'],
  });
  if (flags.json) return;
  const { attention, attentionCount, warnings } = json;
  const now = Date.parse(json.now);
  printData(escapeControls(troubleLine(json)));
  if (attention.length > 0)
    printItems(attention, {
      TOPIC: 'topic',
      REASONS: ({ reasons }) => reasons,
      SINCE: instantOf('since'),
      WAITING: ({ states }) => waiting(states),
      LATE: (line) => lateBy(line, now),
      DEAD: ({ states }) => states.dead,
      CAUSE: causeOf,
      COMMAND: commandOf,
    });
  if (attentionCount > attention.length) say(`dq: the worst ${attention.length} are shown`);
  for (const warning of warnings) say(`dq: warning: ${warning}`);
}

async function explainTopic(topic: string, flags: DaemonOptions): Promise<void> {
  const { json, at } = await ask<CapacityJson>(flags, { ...capacityCall(topic), needs: ['attention'] });
  if (flags.json) return;
  const { line, told } = topicLine(json, at ?? wallNow());
  printData(escapeControls(line));
  const more = [
    ...capacityLines(json, told).map((text) => ['delivery', text] as const),
    ...(await lastDeath(topic, json, flags)),
  ];
  if (more.length > 0) printRecord(more);
}

async function explainJob(topic: string, id: string, flags: DaemonOptions): Promise<void> {
  const path = ['v1', 'topics', topic, 'jobs', id];
  const { json: job, at } = await clientOf(flags).call<JobJson>({ path, needs: ['state', 'why'] });
  const { state, why, nextAttempts = [] } = job;
  if (flags.json) printData(JSON.stringify({ topic, id, state, why, nextAttempts }));
  else printRecord([['topic', topic], ['id', id], ['state', state], ...linesOf(job, at ?? wallNow())]);
}

/** Of a topic whose receiver does not fail now: the first line has the last failure of one that does. */
async function lastDeath(
  topic: string,
  { attention }: CapacityJson,
  flags: DaemonOptions,
): Promise<readonly (readonly [string, string])[]> {
  if (attention === null || attention.states.dead === 0) return [];
  if ((attention.calls?.failuresInRow ?? 0) > 0) return [];
  const { json } = await clientOf(flags).call<PageOf<DeadLetterJson>>({
    path: ['v1', 'dead'],
    query: { topic, limit: 1 },
    needs: ['items'],
  });
  return json.items.map(({ id, deadAt, deadReason, lastReason, status, replyExcerpt, detail }) => [
    'last dead',
    `${id}, at ${shownInstant(deadAt)}: ${words(deadReason, lastReason, status, excerpt(replyExcerpt || (detail ?? ''), excerptMax))}`,
  ]);
}

/** `now`: the daemon's clock, epoch ms. */
export function linesOf(job: JobJson, now: number): readonly (readonly [string, string])[] {
  const { why, nextAttempts = [] } = job;
  const last = job.attempts.at(-1);
  const next = isHeld(why) || isOfClients(why) ? undefined : nextAttempts[0];
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
      : [
          [
            'next attempt',
            `${next.attempt} of ${job.maxAttempts ?? '?'}${whenOf(next.at, job, now)}`,
          ] as const,
        ]),
  ];
}

/** '' for a time that has come: what the job waits for decides when. That of a ready job has come, whatever
 *  part of a second the clock of the reply has lost. */
function whenOf(at: string, { state, why }: JobJson, now: number): string {
  if (state === 'ready' && why.ahead) return `, after the jobs before it${likely(why, now)}`;
  if (state === 'ready') return '';
  return Date.parse(at) > now ? `, at ${shownInstant(at)}` : '';
}

/** Of more jobs than dq counts it is the earliest time. */
function likely({ ahead, likelyAt }: JobJson['why'], now: number): string {
  if (likelyAt === undefined) return '';
  const word = (ahead ?? 0) < storeLimits.positionMax ? 'likely at' : 'not before';
  return `: ${word} ${shownInstant(likelyAt)}, in ${until(likelyAt, now)}, at the pace of the last 5 minutes`;
}

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

export const holds: Readonly<Partial<Record<WhyCode, string>>> = {
  topic_paused: 'its topic is paused, so dq holds it',
  topic_offline: 'its topic is offline, so dq holds it',
  not_registered: 'its topic is not registered, so dq holds it',
} satisfies Record<HeldCode, string>;
type NumberedCode = `waits_${'until_due' | 'to_retry' | 'again'}` | 'not_promoted' | 'ahead' | 'running';
const sentences: Readonly<Record<Exclude<WhyCode, NumberedCode | HeldCode | 'dead' | 'ended'>, string>> = {
  at_concurrency: 'it is due and waits for a free slot',
  waits_for_pull: 'it is due and waits for a client that pulls its topic',
  at_pull_leases: 'it is due; clients hold too many unanswered jobs of its topic',
  pulled: 'a client has pulled it and not answered yet',
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

function sentenceOf({ state, attempt, maxAttempts, deadReason, why, again }: JobJson, now: number): string {
  const max = maxAttempts ?? '?';
  const at = why.at ?? '';
  const shown = at === '' ? '' : shownInstant(at);
  switch (why.code) {
    case 'waits_until_due':
    case 'waits_to_retry':
      return Date.parse(at) > now
        ? `attempt ${attempt + 1} of ${max} is due at ${shown}, in ${until(at, now)}`
        : `attempt ${attempt + 1} of ${max} has been due since ${shown}`;
    case 'waits_again':
      return `snoozed ${times(again ?? 0)}; attempt ${attempt + 1} of ${max} is due at ${shown}`;
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
      return `dead letter since ${shown}: ${deadReason ?? 'no attempt follows'}`;
    case 'ended':
      return `${state} since ${shown}`;
    case 'topic_paused':
    case 'topic_offline':
    case 'not_registered':
      return `it is due; ${holds[why.code]}`;
    default:
      // A newer daemon may have others.
      return sentences[why.code] ?? why.code;
  }
}

const until = (at: string, now: number): string => wholeSeconds(Date.parse(at) - now);
const ago = (at: string, now: number): string => wholeSeconds(now - Date.parse(at));

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
  if (reply === null) return [];
  const lines = capacityLines(reply.json);
  return (lines.length === 0 ? ['nothing keeps its jobs back'] : lines).map((line) => ['calls', line]);
}

/** Why jobs are not called: each reason once, with the names of the notifiers where only some of them say it.
 *  Without the reasons with the codes `told`. */
function capacityLines(
  { reasons, notifiers }: CapacityJson,
  told: readonly CapacityReasonJson['code'][] = [],
): readonly string[] {
  const byText = new Map<string, string[]>();
  for (const { notifier, reasons: own } of notifiers) {
    const texts = own === null ? [silent] : own.filter(({ code }) => !told.includes(code)).map(reasonLine);
    for (const text of texts) byText.set(text, [...(byText.get(text) ?? []), notifier]);
  }
  return [
    ...reasons.filter(({ code }) => !told.includes(code)).map(reasonLine),
    ...Array.from(byText, ([text, names]) =>
      names.length === notifiers.length ? text : `${names.join(', ')}: ${text}`,
    ),
  ];
}

const silent = 'does not answer; dq status shows the processes';

const reasonLine = ({ message, remedy }: CapacityReasonJson): string => `${message} (${remedy})`;
