// Makes the job that the end of another one pushes: its receiver gets the end, the reply and the body. The
// store pushes it in the step that ends the job.
// Invariant: where a topic names one, no end is written without it: while the registry or the job cannot be
// read, the lease stays as it is. A record of a topic or a body that is damaged prevents no end: the record
// still says which topics it names, and the outcome job has no body.

import { isUtf8 } from 'node:buffer';
import type { Config } from '../config/options.ts';
import { webhookIdOf } from '../core/delivery.ts';
import { formatInstant } from '../core/duration.ts';
import { extensionOf, optionsIn } from '../core/extension.ts';
import type { DeadReason, JobSnapshot, Lease, ReservedJob } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import type { OutcomeTopics } from '../core/topic/outcome-topics.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { AckItem, JobStore, Outcome } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import { failureCodeOf, StoreError, type StoreFailure } from '../ports/store-error.ts';
import { findTopic } from './change-topic.ts';

/** How a job ended. */
interface End {
  /** null: delivered */
  readonly reason: DeadReason | null;
  /** attempts that were made */
  readonly attempt: number;
  /** epoch ms by the storage clock */
  readonly at: number;
  /** HTTP status of the reply; null without one */
  readonly status: number | null;
  /** body of the reply, or what a pull client gives; null: none, or none that is whole */
  readonly reply: Buffer | null;
}

type EndedJob = Pick<
  ReservedJob,
  'topic' | 'id' | 'version' | 'origin' | 'acceptedAt' | 'contentType' | 'extension'
> & {
  /** null: it cannot be read */
  readonly body: Buffer | null;
};

/** The topics that this process knows. */
interface Topics {
  get(topic: string): (OutcomeTopics & Pick<Topic, 'delayMs' | 'priority'>) | undefined;
}

/** What a process needs to complete an end. */
interface Ending {
  readonly config: Pick<Config, 'limits.bodyBytes'>;
  readonly topics: Topics;
  readonly registry: Pick<Registry, 'get' | 'remains'>;
  readonly store: { readonly jobs: Pick<JobStore, 'get'> };
  readonly clock: { now(): number };
  readonly counters: { add(topic: string, name: 'pushed'): void };
}

const nameIn = (topic: OutcomeTopics, reason: DeadReason | null): string =>
  reason === null ? topic.onDone : topic.onDead;

/** undefined: the topic of the job names none. */
export function outcomeOf(
  topics: Topics,
  topic: OutcomeTopics,
  job: EndedJob,
  end: End,
): Outcome | undefined {
  const name = nameIn(topic, end.reason);
  if (name === '') return undefined;
  // The registry keeps a named topic. A process that has not read it yet pushes by the defaults.
  const { delayMs = 0, priority = 'normal' } = topics.get(name) ?? {};
  const { trace } = optionsIn(job.extension);
  return {
    job: {
      topic: name,
      id: `${webhookIdOf(job)}:${job.version}`,
      when: { delayMs },
      mode: 'keep',
      priority,
      contentType: 'application/json',
      body: bodyOf(job, end, limits.outcomePartBytesMax),
      extension: trace === undefined ? null : extensionOf({ trace }),
    },
    short: bodyOf(job, end, 0),
  };
}

function bodyOf(job: EndedJob, { reason, attempt, at, status, reply }: End, partMax: number): Buffer {
  const { topic, id, version, acceptedAt, contentType, body } = job;
  return Buffer.from(
    JSON.stringify({
      type: reason === null ? 'dq.done' : 'dq.dead',
      topic,
      id,
      webhookId: webhookIdOf(job),
      version: String(version),
      attempt,
      createdAt: formatInstant(acceptedAt),
      endedAt: formatInstant(at),
      deadReason: reason,
      status,
      ...part('reply', reply, partMax),
      contentType,
      ...part('body', body, partMax),
    }),
  );
}

/** Text as it is, other bytes in base64, a long part only by its length. */
function part(name: 'reply' | 'body', bytes: Buffer | null, max: number): object {
  if (bytes === null) return { [name]: null };
  if (bytes.length > max) return { [name]: null, [`${name}Bytes`]: bytes.length };
  return isUtf8(bytes) ? { [name]: bytes.toString() } : { [`${name}Base64`]: bytes.toString('base64') };
}

type Kind = { readonly kind: string };
type Unwritten = StoreFailure | { readonly kind: 'lease_lost' };

/** Ends leases whose jobs this process does not hold, by `end`, with their outcome jobs: their bodies are
 *  read from the store first. An item that cannot be completed is not sent. Of many outcome jobs it holds a
 *  few: 1,000 of them can have 780 MB. */
export async function endWithOutcomes<I extends Lease & Pick<AckItem, 'attempt'>, O extends Kind>(
  ending: Ending,
  items: readonly I[],
  endOf: (item: I) => Pick<End, 'reason' | 'reply'>,
  end: (items: readonly (I & Pick<AckItem, 'outcome'>)[]) => Promise<readonly O[]>,
): Promise<readonly (O | Unwritten)[]> {
  const most = Math.floor(limits.outcomesReadBytesMax / ending.config['limits.bodyBytes']);
  const atOnce = Math.max(1, Math.min(limits.outcomesReadAtOnce, most));
  const results: (O | Unwritten)[] = [];
  const topics = await topicsOf(ending, items);
  let ready: Completed<I>[] = [];
  let bytes = 0;
  for (let at = 0; at < items.length; at += atOnce) {
    const next = items.slice(at, at + atOnce);
    const found = await Promise.all(
      next.map((item) => completed(ending, topics.get(item.topic), item, endOf(item))),
    );
    for (const { item } of found) bytes += item?.outcome?.job.body.length ?? 0;
    ready.push(...found);
    if (bytes < limits.pushBatchBytesMax && at + next.length < items.length) continue;
    results.push(...(await ended(ending, ready, end)));
    [ready, bytes] = [[], 0];
  }
  return results;
}

async function ended<I, O extends Kind>(
  ending: Ending,
  ready: readonly Completed<I>[],
  end: (items: readonly (I & Pick<AckItem, 'outcome'>)[]) => Promise<readonly O[]>,
): Promise<readonly (O | Unwritten)[]> {
  const sent = ready.flatMap(({ item }) => (item === undefined ? [] : [item]));
  const outcomes = sent.length === 0 ? [] : await end(sent);
  for (const [n, { outcome }] of sent.entries())
    if (outcome !== undefined && isEnded(outcomes[n])) ending.counters.add(outcome.job.topic, 'pushed');
  let at = 0;
  return ready.map((one) => {
    if (one.item === undefined) return one.unwritten as Unwritten;
    at += 1;
    return outcomes[at - 1] as O;
  });
}

const isEnded = (answer: Kind | undefined): boolean => answer?.kind === 'acked' || answer?.kind === 'buried';

/** The item with its outcome job, or why it cannot be sent. */
type Completed<I> =
  | { readonly item: I & Pick<AckItem, 'outcome'>; readonly unwritten?: undefined }
  | { readonly item?: undefined; readonly unwritten: Unwritten };

async function completed<I extends Lease & Pick<AckItem, 'attempt'>>(
  { topics, store, clock }: Ending,
  topic: OutcomeTopics | StoreFailure | null | undefined,
  item: I,
  { reason, reply }: Pick<End, 'reason' | 'reply'>,
): Promise<Completed<I>> {
  if (topic === null || topic === undefined) return { item };
  if ('kind' in topic) return { unwritten: topic };
  try {
    if (nameIn(topic, reason) === '') return { item };
    const job = await readJob(store.jobs, item);
    if (job?.version !== item.version) return { unwritten: { kind: 'lease_lost' } };
    const attempt = item.attempt?.attempt ?? job.failures;
    const how = { reason, attempt, at: clock.now(), status: null, reply };
    return { item: { ...item, outcome: outcomeOf(topics, topic, job, how) } };
  } catch (error) {
    return { unwritten: notStored(error) };
  }
}

/** The topics of the items; null: there is none. Each that this process does not know is read once: after a
 *  start without the registry, or since a moment ago, it may name one all the same. */
async function topicsOf(
  { topics, registry }: Ending,
  items: readonly Lease[],
): Promise<ReadonlyMap<string, OutcomeTopics | StoreFailure | null>> {
  const names = new Set(items.map(({ topic }) => topic));
  const found = [...names].map(async (name) => {
    const topic = topics.get(name) ?? (await findTopic(registry, name).catch(notStored));
    return [name, topic] as const;
  });
  return new Map(await Promise.all(found));
}

function notStored(error: unknown): StoreFailure {
  if (!(error instanceof StoreError)) throw error;
  return { kind: 'not_stored', code: error.failure.code };
}

/** How a store rejects the read of a damaged job. A repeat would be rejected, too. */
const damaged: ReadonlySet<string> = new Set(['store_damaged', 'store_failed']);

async function readJob(
  jobs: Pick<JobStore, 'get'>,
  { topic, id, version }: Lease,
): Promise<(Omit<JobSnapshot, 'body'> & Pick<EndedJob, 'body'>) | null> {
  try {
    return await jobs.get({ topic, id }, undefined, version);
  } catch (error) {
    if (!damaged.has(failureCodeOf(error))) throw error;
    const job = await jobs.get({ topic, id }, 'bodiless', version);
    return job === null ? null : { ...job, body: null };
  }
}
