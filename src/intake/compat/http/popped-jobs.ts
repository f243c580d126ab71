// PoppedJobs pops jobs for clients that know an id and no lease, and finishes them by their id.
// Invariant: the leases that this server has forgotten, and those of other servers, finish too, by a search.

import type { Socket } from 'node:net';
import { DqError } from '../../../core/errors.ts';
import type { PulledLease } from '../../../core/pull-lease.ts';
import type { Rights } from '../../../core/token.ts';
import { topicOfForeign } from '../../../core/topic/foreign-name.ts';
import type { TopicBook } from '../../../registry/topic-book.ts';
import { requirePull } from '../../../use-cases/change-topic.ts';
import { pullForClient } from '../../pull/pull-for-client.ts';
import type { PulledLeases } from '../../pull/pulled-leases.ts';
import type { PulledJob, Puller } from '../../pull/puller.ts';
import type { CompatAccess } from '../compat-access.ts';
import type { CompatJobs } from '../compat-jobs.ts';
import { compatLimits } from '../limits.ts';

export interface PoppedJobsParts {
  readonly puller: Puller;
  readonly leases: PulledLeases;
  readonly access: CompatAccess;
  readonly jobs: CompatJobs;
  readonly topics: Pick<TopicBook, 'get'>;
}

export class PoppedJobs {
  readonly #parts: PoppedJobsParts;
  /** by id, the oldest first */
  readonly #leases = new Map<string, PulledLease>();

  constructor(parts: PoppedJobsParts) {
    this.#parts = parts;
  }

  /** Waits for topics that do not exist, too. null: no job in time, or the client has left. Rejects with
   *  DqError. */
  async pop(
    { socket, rights }: { readonly socket: Socket; readonly rights: Rights },
    topics: readonly string[],
    waitMs: number,
  ): Promise<PulledJob['job'] | null> {
    for (const name of topics) {
      this.#parts.access.require('pull', name, rights);
      const topic = this.#parts.topics.get(name);
      if (topic !== undefined) requirePull(topic);
    }
    const request = { topics, max: 1, waitMs, leaseMs: null };
    const [pulled] = await pullForClient(this.#parts.puller, socket, request);
    if (pulled === undefined) return null;
    const { job } = pulled;
    const { topic, id, version, token, failures, dueAt, extension } = job;
    const lease: PulledLease = { topic, id, version, token, failures, dueAt, extension };
    this.#parts.leases.pulled(lease);
    this.#remember(lease);
    return job;
  }

  #remember(lease: PulledLease): void {
    // Behind the others.
    this.#leases.delete(lease.id);
    this.#leases.set(lease.id, lease);
    if (this.#leases.size <= compatLimits.poppedMax) return;
    for (const oldest of this.#leases.keys()) {
      this.#leases.delete(oldest);
      return;
    }
  }

  /** Of an unknown id too. Rejects with DqError or StoreError. */
  async finish(id: string, rights: Rights): Promise<void> {
    const { access, jobs } = this.#parts;
    access.requireScope('pull', rights);
    const lease = this.#leases.get(id);
    if (lease !== undefined) {
      access.require('pull', lease.topic, rights);
      if (await this.#ack(lease)) return;
    }
    await jobs.endAll(id, rights, 'done');
  }

  /** False: the lease is lost. */
  async #ack(lease: PulledLease): Promise<boolean> {
    const [outcome] = await this.#parts.leases.ack([lease]);
    switch (outcome?.kind) {
      case 'acked':
      case 'lease_lost':
        // Popped again meanwhile: it keeps the new lease.
        if (this.#leases.get(lease.id) === lease) this.#leases.delete(lease.id);
        return outcome.kind === 'acked';
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
