// PoppedJobs pops jobs for clients that know an id and no lease, and finishes them by their id.
// Invariant: finish ends only a job that a client was given, and never a later push of its id while the lease
// is known. A server knows the leases of its own pops, until they end. Those that it has forgotten, and those
// of other servers, finish by a search for jobs that a client has, or had until its lease expired.

import type { ServerResponse } from 'node:http';
import { DqError } from '../../core/errors.ts';
import { type PulledLease, pulledLeaseOf } from '../../core/pull-lease.ts';
import { clientOf, type Rights } from '../../core/token.ts';
import { topicOfForeign } from '../../core/topic/topic.ts';
import { pullForClient } from '../../intake/pull/pull-for-client.ts';
import type { PulledJob } from '../../intake/pull/puller.ts';
import { requirePull } from '../../use-cases/change-topic.ts';
import type { CompatJobs } from '../compat-jobs.ts';
import type { CompatParts } from '../compat-listener.ts';
import { compatLimits } from '../limits.ts';

/** A job that was popped here. */
interface Popped {
  readonly lease: PulledLease;
  /** when its lease ends, epoch ms by the storage clock */
  readonly until: number;
}

export interface PoppingCall {
  readonly response: ServerResponse;
  readonly rights: Rights;
  /** The rights now, after a wait. Throws DqError. */
  readonly admit: () => Rights;
}

export class PoppedJobs {
  readonly #parts: CompatParts;
  readonly #jobs: CompatJobs;
  /** by id, the oldest first */
  readonly #popped = new Map<string, Popped>();

  constructor(parts: CompatParts, jobs: CompatJobs) {
    this.#parts = parts;
    this.#jobs = jobs;
  }

  /** Waits for topics that do not exist, too. `answerOf` gets null: no job in time, or the client has left.
   *  Rejects as that does, and with DqError. */
  async pop<T>(
    { response, rights, admit }: PoppingCall,
    topics: readonly string[],
    waitMs: number,
    answerOf: (pulled: PulledJob | null) => T | Promise<T>,
  ): Promise<T> {
    const { role, access, puller, leases } = this.#parts;
    for (const name of topics) {
      access.require('pull', name, rights);
      const topic = role.topics.get(name);
      if (topic !== undefined) requirePull(topic);
    }
    const request = {
      topics,
      max: 1,
      waitMs,
      leaseMs: null,
      client: clientOf(rights, response.req.socket.remoteAddress),
      refusal: () => access.refusal(admit, 'pull', topics),
    };
    return pullForClient(puller, response, request, ([pulled]) => {
      if (pulled === undefined) return answerOf(null);
      const lease = pulledLeaseOf(pulled);
      leases.pulled(lease);
      this.#remember({ lease, until: pulled.pulledAt + pulled.job.leaseMs });
      return answerOf(pulled);
    });
  }

  #remember(popped: Popped): void {
    const { id } = popped.lease;
    // Behind the others.
    this.#popped.delete(id);
    this.#popped.set(id, popped);
    if (this.#popped.size <= compatLimits.poppedMax) return;
    for (const oldest of this.#popped.keys()) {
      this.#popped.delete(oldest);
      return;
    }
  }

  /** Of an unknown id too. Rejects with DqError or StoreError. */
  async finish(id: string, rights: Rights): Promise<void> {
    const { access, role } = this.#parts;
    access.requireScope('pull', rights);
    const popped = this.#popped.get(id);
    if (popped !== undefined) {
      access.require('pull', popped.lease.topic, rights);
      if (await this.#ack(popped.lease)) return;
      // Its attempt may have failed meanwhile: the client has done this version, and no newer one.
      await this.#jobs.finishVersion(popped.lease);
      if (role.clock.now() < popped.until) return;
      // Another server may have finished it, and given a later push of the id to a client.
      this.#forget(popped.lease);
    }
    await this.#jobs.finishPulled(id, rights);
  }

  /** A job that this server has just popped. Rejects with DqError. */
  async finishPopped(pulled: PulledJob): Promise<void> {
    await this.#ack(pulledLeaseOf(pulled));
  }

  /** Another pop of the id keeps its lease. */
  #forget({ id, token }: PulledLease): void {
    if (this.#popped.get(id)?.lease.token === token) this.#popped.delete(id);
  }

  /** False: the lease is lost. */
  async #ack(lease: PulledLease): Promise<boolean> {
    const [outcome] = await this.#parts.leases.ack([lease]);
    switch (outcome?.kind) {
      case 'acked':
        this.#forget(lease);
        return true;
      case 'lease_lost':
        return false;
      case 'not_stored':
        throw new DqError('not_stored', 'the job was not finished; try again');
      default:
        throw new DqError('unknown', 'the job may or may not be finished; trying again is safe');
    }
  }
}

/** The topic of dq for a name. Throws DqError for one that dq cannot encode. */
export function topicOf(name: string): string {
  const topic = topicOfForeign(name);
  if (topic === null) throw new DqError('invalid', `topic: the name ${JSON.stringify(name)} is too long`);
  return topic;
}
