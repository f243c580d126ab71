// PullCalls executes the calls of pull clients: pull, and ack, nack, extend of leases. The routes of the API
// and gRPC share it. Knows no transport.

import { traceJson } from '../../api/routes/job-json.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { webhookIdOf } from '../../core/delivery.ts';
import { formatDuration, formatInstant, parseDuration } from '../../core/duration.ts';
import { DqError, type ErrorCode, invalidField } from '../../core/errors.ts';
import { optionsIn, withOptions } from '../../core/extension.ts';
import { limits } from '../../core/limits.ts';
import { leaseText, type PulledLease, pulledLeaseOf, readLease } from '../../core/pull-lease.ts';
import type { RoleContext } from '../../process/role.ts';
import { requirePull, topicNotFound } from '../../use-cases/change-topic.ts';
import type { LeaseOutcome, PulledLeases } from './pulled-leases.ts';
import type { PulledJob } from './puller.ts';

type MayTouch = (topic: string) => boolean;

/** What a lease became. `code`: why the call did not apply; absent: done. `leaseUntil`: of an extended one,
 *  RFC 3339. */
export interface LeaseResult {
  readonly code?: ErrorCode;
  readonly leaseUntil?: string;
}

interface NackInput {
  /** duration; undefined: the backoff of the topic */
  readonly delay: unknown;
  readonly reason: string;
  readonly dead: boolean;
  readonly release: boolean;
}

export class PullCalls {
  readonly #role: Pick<RoleContext, 'topics' | 'leaseKey'>;
  readonly #leases: PulledLeases;

  constructor(role: Pick<RoleContext, 'topics' | 'leaseKey'>, leases: PulledLeases) {
    this.#role = role;
    this.#leases = leases;
  }

  /** Throws DqError topic_not_found or topic_not_pull. */
  async checkTopic(name: string): Promise<void> {
    const { topics } = this.#role;
    const topic = topics.get(name) ?? (await topics.lookUp(name));
    if (topic === undefined) throw topicNotFound(name);
    requirePull(topic);
  }

  /** The members of a pulled job without its body. Counts its lateness. The settings are those of now: the
   *  topic may have been edited while its client waited. */
  pulled(pulled: PulledJob) {
    const { job, pulledAt } = pulled;
    const { id, version, failures, dueAt, acceptedAt, contentType, leaseMs, extension } = job;
    const lease = pulledLeaseOf(pulled);
    const options = optionsIn(extension);
    const topic = this.#role.topics.get(job.topic);
    const { maxAttempts = 0 } = topic === undefined ? {} : withOptions(topic, options);
    this.#leases.pulled(lease);
    return {
      topic: job.topic,
      id,
      version: String(version),
      webhookId: webhookIdOf(job),
      lease: leaseText(lease, this.#role.leaseKey()),
      leaseUntil: formatInstant(pulledAt + leaseMs),
      attempt: failures + 1,
      maxAttempts,
      dueAt: formatInstant(dueAt),
      createdAt: formatInstant(acceptedAt),
      ...(options.again === undefined ? {} : { again: options.again }),
      ...(options.trace === undefined ? {} : traceJson(options.trace)),
      contentType,
    };
  }

  /** `result`: for the jobs that onDone of the topics pushes; null: none. Throws DqError body_too_large. */
  ack(
    texts: readonly string[],
    mayTouch: MayTouch,
    result: Buffer | null = null,
  ): Promise<readonly LeaseResult[]> {
    const { outcomePartBytesMax } = limits;
    if (result !== null && result.length > outcomePartBytesMax)
      throw new DqError(
        'body_too_large',
        `result: must be at most ${outcomePartBytesMax} bytes; give a reference instead`,
      );
    return this.#each(texts, mayTouch, (mine) => this.#leases.ack(mine, result));
  }

  /** Throws DqError for values that do not go together. */
  nack(
    texts: readonly string[],
    mayTouch: MayTouch,
    { delay, reason, dead, release }: NackInput,
  ): Promise<readonly LeaseResult[]> {
    if (release && (dead || reason !== ''))
      throw invalidField('release', 'counts no attempt, so it takes no reason or dead; leave them out');
    if (dead && delay !== undefined)
      throw invalidField('delay', 'a dead letter has no further attempt; leave out delay or dead');
    const [min, max] = release ? [limits.againMsMin, limits.againMsMax] : [0, limits.delayMsMax];
    const delayMs = delay === undefined ? null : readDuration('delay', delay, min, max);
    return this.#each(texts, mayTouch, (mine) =>
      release && delayMs === null
        ? this.#leases.release(mine)
        : this.#leases.nack(mine, { delayMs, reason, isDead: dead, isSnooze: release }),
    );
  }

  /** `field`: the name of the length in the protocol of the caller. */
  extend(
    texts: readonly string[],
    mayTouch: MayTouch,
    length: unknown,
    field: string,
  ): Promise<readonly LeaseResult[]> {
    const leaseMs = readDuration(field, length, limits.pullLeaseMsMin, limits.pullLeaseMsMax);
    return this.#each(texts, mayTouch, (mine) => this.#leases.extend(mine, leaseMs));
  }

  /** Applies `act` to the leases of topics that the caller may touch; the others are forbidden. A forged one
   *  gets the answer of a lost one: a guess shows nothing. A text that this build cannot read is the fault of
   *  its lease alone: the others hold. */
  async #each(
    texts: readonly string[],
    mayTouch: MayTouch,
    act: (leases: readonly PulledLease[]) => Promise<readonly LeaseOutcome[]>,
  ): Promise<readonly LeaseResult[]> {
    const key = this.#role.leaseKey();
    const leases = texts.map((given) => readLease(given, key));
    const mine = leases.filter(
      (lease): lease is PulledLease => lease !== null && lease !== 'forged' && mayTouch(lease.topic),
    );
    const outcomes = mine.length === 0 ? [] : await act(mine);
    const results = new Map(mine.map((lease, n) => [lease, resultOf(outcomes[n])]));
    return leases.map((lease) => {
      if (lease === null) return { code: 'invalid' };
      return lease === 'forged' ? { code: 'lease_lost' } : (results.get(lease) ?? { code: 'forbidden' });
    });
  }
}

/** Milliseconds; undefined: at once. Throws DqError. */
export function readWait(given: unknown): number {
  return given === undefined ? 0 : readDuration('wait', given, 0, contractLimits.pullWaitMsMax);
}

/** null: that of the topic. Throws DqError. */
export function readLeaseLength(given: unknown): number | null {
  if (given === undefined) return null;
  return readDuration('lease', given, limits.pullLeaseMsMin, limits.pullLeaseMsMax);
}

function readDuration(field: string, given: unknown, minMs: number, maxMs: number): number {
  const parsed = parseDuration(given);
  if (!parsed.ok) throw invalidField(field, parsed.message);
  if (parsed.value >= minMs && parsed.value <= maxMs) return parsed.value;
  throw invalidField(field, `must be from ${formatDuration(minMs)} to ${formatDuration(maxMs)}`);
}

function resultOf(outcome: LeaseOutcome | undefined): LeaseResult {
  switch (outcome?.kind) {
    case 'lease_lost':
    case 'not_stored':
      return { code: outcome.kind };
    case 'unknown':
    case undefined:
      return { code: 'unknown' };
    case 'extended':
      return { leaseUntil: formatInstant(outcome.until) };
    default:
      return {};
  }
}
