// Serves GET /v1/topics/{topic}/capacity: why jobs of a topic are not called now, as each notifier explains
// it. Works while the store or the registry is unavailable: it reads neither to find the topic.

import { contractLimits } from '../../../contract/api/limits.ts';
import { topicCapacitySchema } from '../../../contract/api/topic.ts';
import { createCalendar } from '../../../core/calendar.ts';
import { type CapacityReason, noCallerAmong } from '../../../core/capacity-reasons.ts';
import { formatDuration } from '../../../core/duration.ts';
import { DqError } from '../../../core/errors.ts';
import type { StateCounts } from '../../../ports/job-store.ts';
import { failureCodeOf } from '../../../ports/store-error.ts';
import type { AnswerOf } from '../../../process/questions.ts';
import { topicNotFound } from '../../../use-cases/change-topic.ts';
import { firstFound } from '../../../use-cases/find-job.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { needs, seesDaemon } from '../../http/route-access.ts';
import { dueJson } from '../job-json.ts';
import { noCounts, noJobs } from '../stats-routes.ts';
import { TopicAttention } from '../topic-attention.ts';
import { nameToFind } from './topic-routes.ts';

export function capacityRoute(api: Api, { role, questions }: ApiContext): void {
  const { store, registry, topics, clock, config } = role;
  const attention = new TopicAttention(role, questions);
  const calendar = createCalendar(config.timezone);

  api.get(
    '/v1/topics/:topic/capacity',
    { schema: topicCapacitySchema, config: needs('read', 'path') },
    async (request) => {
      const topic = nameToFind(request.params.topic);
      const [answers, counted] = await Promise.all([questions.ask('capacity', { topic }), statesOf(topic)]);
      const states = typeof counted === 'string' ? null : counted;
      const [overdue, delayed, judged] =
        states === null
          ? [null, null, null]
          : await Promise.all([
              states.delayed > 0 ? overdueOf(topic) : null,
              states.delayed > 0 ? delayedOf(topic) : null,
              judgedOf(topic, states),
            ]);
      const why = seesDaemon(request) ? store.jobs.whyUnknown?.()?.why : undefined;
      const isKnown = !topics.isKnown || topics.get(topic) !== undefined || topics.isUnreadable(topic);
      if (!isKnown && states !== null && !hasJobs(states) && (answers ?? []).every(isUnknownTo))
        throw topicNotFound(topic);
      if (answers === null) throw new DqError('unavailable', 'master: no answer; try again');
      const notifiers = answers.map(({ process, answer }) => ({ notifier: process, reasons: answer }));
      return {
        topic,
        states,
        attention: judged,
        delayed,
        reasons: reasonsOf(counted, overdue, notifiers, why),
        notifiers,
      };
    },
  );

  /** A text: the code of the store's failure. */
  async function statesOf(topic: string): Promise<StateCounts | string> {
    const counts = await store.admin.counts().catch(failureCodeOf);
    if (typeof counts === 'string') return counts;
    return Object.hasOwn(counts.topics, topic) ? (counts.topics[topic] ?? noJobs) : noJobs;
  }

  /** Its counters of today are zero while the registry does not answer. */
  async function judgedOf(topic: string, states: StateCounts) {
    const stats = await registry.stats(topic, calendar.dayOf(clock.now())).catch(() => null);
    const { total, today } = stats ?? { total: noCounts, today: noCounts };
    return attention.ofTopic({ topic, registered: topics.get(topic) !== undefined, total, today, states });
  }

  /** null: no answer, or none of them is left. */
  async function delayedOf(topic: string) {
    const filter = { topic, state: 'delayed' } as const;
    const page = await store.jobs.search(filter, contractLimits.pageItemsMax, null).catch(() => null);
    if (page === null) return null;
    const { items, nextCursor } = page;
    const isLater = items.length === 0 && nextCursor !== null;
    const later = isLater ? await firstFound(store.jobs, filter, nextCursor).catch(() => null) : null;
    const first = items[0] ?? later;
    if (first === null) return null;
    return {
      retrying: nextCursor === null ? items.filter(({ failures }) => failures > 0).length : null,
      next: await dueJson(store.jobs, first),
    };
  }

  /** The first delayed job that is due, for longer than a lost hint explains; null: none, or no answer. */
  async function overdueOf(topic: string): Promise<Overdue | null> {
    const now = clock.now();
    const filter = { topic, state: 'delayed', until: now - config.pollCeiling } as const;
    const first = await firstFound(store.jobs, filter).catch(() => null);
    return first === null ? null : { id: first.id, lateMs: now - first.dueAt };
  }
}

/** A due job that is not ready. */
interface Overdue {
  readonly id: string;
  readonly lateMs: number;
}

const hasJobs = (states: StateCounts) => Object.values(states).some((jobs) => jobs > 0);

/** Also of a notifier without an answer. */
const isUnknownTo = ({ answer }: AnswerOf<readonly CapacityReason[]>) =>
  answer?.some(({ code }) => code === 'unknown_topic') ?? true;

/** `why`: why the store fails, where it is known and the caller may see it */
function reasonsOf(
  states: StateCounts | string,
  overdue: Overdue | null,
  notifiers: readonly { readonly reasons: readonly CapacityReason[] | null }[],
  why: string | undefined,
): readonly CapacityReason[] {
  const reasons: CapacityReason[] = [];
  const noCaller = noCallerAmong(notifiers.map((one) => one.reasons));
  if (noCaller !== null) reasons.push(noCaller);
  if (notifiers.length === 0)
    reasons.push({
      code: 'no_notifier',
      message: 'no notifier of this instance is ready',
      remedy: 'dq status shows the processes; the error log names the cause',
      values: {},
    });
  if (overdue !== null)
    reasons.push({
      code: 'not_promoted',
      message: `job ${overdue.id} has been due for ${formatDuration(Math.round(overdue.lateMs / 1_000) * 1_000)}, and dq-timer (dq-upkeep with profile small) has not made it ready`,
      remedy: 'dq status shows the process; dq fsck names damaged records',
      values: { ...overdue },
    });
  if (typeof states === 'string')
    reasons.push({
      code: 'store_unavailable',
      message: `the store cannot count the jobs (${states})${why === undefined ? '' : `: ${why}`}`,
      remedy: 'check the store: dq doctor, GET /readyz',
      values: { code: states, ...(why !== undefined && { why }) },
    });
  else if (states.ready === 0) {
    const { delayed, reserved, dead } = states;
    reasons.push({
      code: 'no_ready_job',
      message: hasJobs(states)
        ? `no job waits for a call: ${delayed} delayed, ${reserved} running, ${dead} dead`
        : 'the topic has no jobs',
      remedy: hasJobs(states)
        ? 'a delayed job is called when it is due, or now by dq run; dead letters after dq dead requeue'
        : 'push a job with dq push',
      values: { delayed, reserved, dead },
    });
  }
  return reasons;
}
