// CompatJobs pushes, cancels and reads jobs for the protocols of other queues: access, counters and request
// log are those of the HTTP API. topicOrMade() makes the pull topic of a push whose topic does not exist: the
// queues whose clients push know no registration. It is in the registry before the push is stored.
// Invariant: a push or cancel gets one result, and an unknown one is neither a success nor a failure.

import { elapsedMs, logRequest } from '../api/http/request-log.ts';
import { finishPush, rejectionOf } from '../api/routes/push-result.ts';
import type { CompatProtocol } from '../config/options.ts';
import { catalogue, DqError } from '../core/errors.ts';
import type { EndState, FoundJob, JobKey, JobSnapshot, VersionedKey } from '../core/job.ts';
import { refusesId } from '../core/job-id.ts';
import { type Rights, reaches } from '../core/token.ts';
import { topicNamePattern } from '../core/topic/fields.ts';
import { foreignOfTopic, type PlainTopic, type TopicSettings } from '../core/topic/topic.ts';
import type { Page, PushOutcome } from '../ports/job-store.ts';
import { remedyOf, StoreError } from '../ports/store-error.ts';
import type { RoleContext } from '../process/role.ts';
import { monotonicNow } from '../runtime/time.ts';
import { acceptJob, type PushRequest, pushTerms } from '../use-cases/accept-job.ts';
import { createTopic, topicNotFound } from '../use-cases/change-topic.ts';
import { topicOfPush } from '../use-cases/find-topics.ts';
import { cancelJob } from '../use-cases/move-job.ts';
import type { PushQueue, PushTicket } from '../use-cases/push-queue.ts';
import type { CompatAccess } from './compat-access.ts';
import { compatLimits } from './limits.ts';

/** `unknown`: the store may have done it · `failed`: it has surely not */
export type CompatResult<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'failed' | 'unknown'; readonly error: DqError };

/** A push as its protocol wrote it, for this topic; without a mode it replaces. Throws DqError for an invalid
 *  one. */
export type ReadPush = (
  topic: PlainTopic,
) => Pick<PushRequest, 'id' | 'delay' | 'at' | 'contentType' | 'body'> & Partial<PushRequest>;

/** JSON members of the reply of the HTTP API, without braces. */
type PushMembers = string;

export interface Producer {
  readonly rights: Rights;
  /** Its pushes take turns with those of other connections; absent: its protocol bounds how many are open. */
  readonly socket?: object;
}

export interface CompatJobsOptions {
  readonly role: RoleContext;
  readonly pushes: Pick<PushQueue, 'add' | 'addInTurn'>;
  readonly access: CompatAccess;
  readonly via: CompatProtocol;
  /** of a push, where this process does not know the name; default: only those that exist */
  readonly findTopic?: (name: string) => Promise<PlainTopic>;
}

export class CompatJobs {
  readonly #options: CompatJobsOptions;

  constructor(options: CompatJobsOptions) {
    this.#options = options;
  }

  /** Calls `done` once, perhaps before it returns. No promise where the topic is known: this is the hot path.
   *  `id`: for the log, null if it is unreadable. */
  push(
    name: string,
    id: string | null,
    read: ReadPush,
    done: (result: CompatResult<PushMembers>) => void,
    producer?: Producer,
  ): void {
    const { role, access, findTopic = (wanted) => topicOfPush(role.topics, wanted) } = this.#options;
    const since = monotonicNow();
    const reject = (thrown: unknown): void => {
      const error = this.errorOf(thrown);
      role.metrics.count('dq_pushes_total', 1, rejectionOf(error.code));
      this.#log('POST', { topic: name, id }, since, error);
      done(failure(error));
    };
    try {
      access.require('push', name, producer?.rights);
      const topic = role.topics.get(name);
      const add = this.#entryOf(producer?.socket);
      if (topic !== undefined) this.#store(topic, read, since, add, done);
      else
        findTopic(name)
          .then((found) => this.#store(found, read, since, add, done))
          .catch(reject);
    } catch (error) {
      reject(error);
    }
  }

  /** `push` as a promise, for a producer with rights. Never rejects. */
  pushed(
    name: string,
    id: string | null,
    read: ReadPush,
    producer: Producer,
  ): Promise<CompatResult<PushMembers>> {
    return new Promise((resolve) => this.push(name, id, read, resolve, producer));
  }

  #entryOf(socket: object | undefined): (ticket: PushTicket) => void {
    const { pushes } = this.#options;
    return (ticket) => (socket === undefined ? pushes.add(ticket) : pushes.addInTurn(socket, ticket));
  }

  #store(
    topic: PlainTopic,
    read: ReadPush,
    since: number,
    add: (ticket: PushTicket) => void,
    done: (result: CompatResult<PushMembers>) => void,
  ): void {
    const { role, via } = this.#options;
    const request = { mode: 'replace', inQuery: false, isLiteral: true, ...read(topic) } as const;
    const job = acceptJob(request, topic, pushTerms(role));
    add({
      job,
      settle(outcome: PushOutcome) {
        const reply = finishPush({ role }, job, outcome, since, via);
        done(reply.ok ? { kind: 'ok', value: reply.members } : failure(reply.error));
      },
    });
  }

  /** ok with null: no such job. Never rejects. */
  async cancel(
    { topic, id }: JobKey,
    rights?: Rights,
  ): Promise<CompatResult<{ readonly inFlight: boolean } | null>> {
    const { role, access } = this.#options;
    const since = monotonicNow();
    try {
      checkKey({ topic, id });
      access.require('push', topic, rights);
      const cancelled = await cancelJob(role.store.jobs, { topic, id });
      if (cancelled !== null) role.counters.add(topic, 'cancelled');
      const absent = new DqError('job_not_found', 'no such job, or the job has ended');
      this.#log('DELETE', { topic, id }, since, cancelled === null ? absent : null);
      return { kind: 'ok', value: cancelled };
    } catch (thrown) {
      const error = this.errorOf(thrown);
      this.#log('DELETE', { topic, id }, since, error);
      return failure(error);
    }
  }

  /** ok with null: no such job. Never rejects. */
  async get({ topic, id }: JobKey): Promise<CompatResult<JobSnapshot | null>> {
    const { role, access } = this.#options;
    try {
      checkKey({ topic, id });
      access.require('read', topic);
      return { kind: 'ok', value: await role.store.jobs.get({ topic, id }) };
    } catch (thrown) {
      return failure(this.errorOf(thrown));
    }
  }

  /** Jobs with this id in the topics of the caller; `state`: absent: all but the ended ones. Rejects with
   *  DqError or StoreError. */
  async find(id: string, rights: Rights, state?: EndState): Promise<readonly FoundJob[]> {
    if (refusesId(id) !== null) return [];
    const { jobs } = this.#options.role.store;
    const filter = { id, ...(state === undefined ? {} : { state }) };
    const found: FoundJob[] = [];
    let cursor: string | null = null;
    for (let pages = 0; pages < compatLimits.searchPagesMax; pages++) {
      const page: Page<FoundJob> = await jobs.search(filter, compatLimits.searchItemsMax, cursor);
      if ((page.missing ?? []).length > 0) break;
      found.push(...page.items.filter(({ topic }) => reaches(rights, topic)));
      cursor = page.nextCursor;
      if (cursor === null) return found;
    }
    throw new DqError('unavailable', 'the search for this id did not reach every store; try again');
  }

  /** The job of this id that dq accepted last; null: none. Rejects as `find`. */
  async latest(id: string, rights: Rights): Promise<JobSnapshot | null> {
    const found = await this.find(id, rights);
    const [first] = [...found].sort((a, b) => b.acceptedAt - a.acceptedAt || b.version - a.version);
    return first === undefined ? null : this.#options.role.store.jobs.get(first);
  }

  /** Cancels the job in every topic of the caller. Returns how many there were. Rejects as `find`; unknown:
   *  some may have ended. */
  async endAll(id: string, rights: Rights): Promise<number> {
    const since = monotonicNow();
    // Without a version: the id ends whatever it holds, as a DELETE of it does.
    const keys = (await this.find(id, rights)).map(({ topic }) => ({ topic, id }));
    await this.#end(keys, since);
    return keys.length;
  }

  /** Ends the jobs with this id that clients were given, as delivered. Rejects as `endAll`. */
  async finishPulled(id: string, rights: Rights): Promise<void> {
    const { topics } = this.#options.role;
    const since = monotonicNow();
    const found = await this.find(id, rights);
    const pulled = found.filter(({ topic }) => topics.get(topic)?.delivery === 'pull');
    const isGiven = await Promise.all(pulled.map((job) => this.#isGiven(job)));
    await this.#end(
      pulled.filter((_, n) => isGiven[n]),
      since,
      'done',
    );
  }

  /** A client has the job, or had it until its lease expired and was not given a newer push. */
  async #isGiven(job: FoundJob): Promise<boolean> {
    if (job.state === 'reserved') return true;
    if (job.failures === 0) return false;
    const stored = await this.#options.role.store.jobs.get(job);
    return stored?.version === job.version && stored.attempts.at(-1)?.reason === 'lease_expired';
  }

  /** Ends this version of a job as delivered, in any state; a newer one stays. Rejects as `endAll`. */
  finishVersion(job: Required<VersionedKey>): Promise<void> {
    return this.#end([job], monotonicNow(), 'done');
  }

  async #end(found: readonly VersionedKey[], since: number, as?: 'done'): Promise<void> {
    const { role } = this.#options;
    if (found.length === 0) return;
    const keys = found.map(({ topic, id, version }) => ({ topic, id, version }));
    const outcomes = await role.store.jobs.cancel(keys, as);
    const errors = keys.map((key, n) => {
      const { kind } = outcomes[n] ?? { kind: 'unknown' };
      if (kind === 'cancelled') role.counters.add(key.topic, as === 'done' ? 'delivered' : 'cancelled');
      const error =
        kind === 'cancelled' || kind === 'absent' || kind === 'other_version'
          ? null
          : new DqError(
              kind,
              kind === 'unknown' ? 'the job may or may not have ended' : 'the job was not ended; try again',
            );
      this.#log('DELETE', key, since, error);
      return error;
    });
    const failed =
      errors.find((error) => error?.code === 'unknown') ?? errors.find((error) => error !== null);
    if (failed) throw failed;
  }

  errorOf(thrown: unknown): DqError {
    if (thrown instanceof DqError) return thrown;
    if (thrown instanceof StoreError) {
      const { code } = thrown.failure;
      return new DqError(
        'unavailable',
        `the job store does not answer (${code}); ${remedyOf(code, 'send the request again')}`,
        { cause: thrown },
      );
    }
    this.#options.role.log.error(`${this.#options.via}: unhandled error in a request`, thrown);
    return new DqError('unknown', 'dq failed; its error log has the cause');
  }

  #log(method: 'POST' | 'DELETE', key: RequestKey, since: number, error: DqError | null): void {
    const { role, via } = this.#options;
    const { code = null, message = null } = error ?? {};
    logRequest(role.log, {
      method,
      ...key,
      status: code === null ? 200 : catalogue[code].status,
      code,
      version: null,
      dueAt: null,
      bytes: 0,
      ms: elapsedMs(since),
      via,
      ...(message === null ? {} : { reason: message }),
    });
  }
}

type RequestKey = { readonly topic: string; readonly id: string | null };

/** Throws DqError for a name or id that no job has. */
function checkKey({ topic, id }: JobKey): void {
  if (!topicNamePattern.test(topic)) throw topicNotFound(topic);
  const wrong = refusesId(id);
  if (wrong !== null) throw new DqError('invalid', `id: ${wrong}`);
}

function failure(error: DqError): { readonly kind: 'failed' | 'unknown'; readonly error: DqError } {
  return { kind: error.code === 'unknown' ? 'unknown' : 'failed', error };
}

/** Of topics that pushes have made. */
const owner = 'compat';

/** Throws DqError; none of its codes leaves open whether the job was stored. */
export async function topicOrMade(role: RoleContext, name: string): Promise<PlainTopic> {
  const { topics, config } = role;
  try {
    return await topicOfPush(topics, name);
  } catch (error) {
    const isUnknown = error instanceof DqError && error.code === 'topic_not_found';
    if (!isUnknown || config['compat.autoTopics'] === 'off') throw error;
  }
  let made = 0;
  for (const topic of topics.all()) if (topic.owner === owner) made += 1;
  if (made >= compatLimits.autoTopicsMax)
    throw new DqError(
      'topic_not_found',
      `there is no topic ${JSON.stringify(name)}, and pushes have made ${made} topics already; make it with dq topic add`,
    );
  await make(role, name);
  return topicOfPush(topics, name);
}

async function make({ registry, log }: RoleContext, name: string): Promise<void> {
  const settings: Partial<TopicSettings> = {
    delivery: 'pull',
    leaseMs: 60_000,
    maxAttempts: 100,
    owner,
    title: titleOf(name),
    backoff: { type: 'ladder', stepsMs: [0] },
  };
  try {
    await createTopic(registry, name, { settings });
    log.notice('compat: a push has made a pull topic', { topic: name });
  } catch (error) {
    // Another push was first.
    if (!(error instanceof DqError && error.code === 'topic_exists'))
      throw new DqError('not_stored', 'topic: cannot register it now; push again', { cause: error });
  }
}

/** Consoles, tables and mails show it, so it has no control characters. */
function titleOf(topic: string): string {
  return foreignOfTopic(topic).replace(/\p{Cc}/gu, ' ');
}
