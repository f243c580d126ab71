// AuditTrail records who changed what. A line of the log kind audit comes first and is the record; a row of
// the registry is the view, written a moment later. Rows wait while the registry is unavailable, at most
// apiLimits.auditHeldMax; a process that dies loses the rows that wait, and their lines remain.
// Which routes are recorded follows from their access (isAudited); no handler decides it.
// Invariant: a request never waits for its row.

import type { FastifyRequest } from 'fastify';
import { type AuditDetail, type AuditEntry, makeAuditId, shownFilter } from '../core/audit.ts';
import { formatInstant } from '../core/duration.ts';
import type { ErrorCode } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Registry } from '../ports/registry.ts';
import { FailureLog } from '../runtime/failure-log.ts';
import { Loop } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import { wallNow } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { isRead } from './http/request-head.ts';
import { actorOf, type DeclaredAccess } from './http/route-access.ts';
import { apiLimits } from './limits.ts';

export class AuditTrail implements Service {
  readonly #registry: Pick<Registry, 'addAudit'>;
  readonly #log: Log;
  readonly #loop: Loop;
  readonly #failures: FailureLog;
  #held: AuditEntry[] = [];
  #dropped = 0;

  constructor(registry: Pick<Registry, 'addAudit'>, log: Log) {
    this.#registry = registry;
    this.#log = log;
    this.#failures = new FailureLog(log, {
      failure: 'audit: cannot write to the registry; the log files of kind audit have all entries',
      end: 'audit: writes to the registry again',
    });
    this.#loop = new Loop({
      step: () => this.#write(),
      onFailure: (error) => this.#failures.failed(error),
      failureWaitMs: limits.loopSleepMsMax,
    });
  }

  start(): Promise<void> {
    return this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#loop.drain(deadlineMs);
    // A last try for the entries of the last requests; a failure is logged as any other.
    if (!this.#failures.isFailing) await this.#write().catch((error) => this.#failures.failed(error));
  }

  /** Records an answered request of an audited route. */
  answered(request: FastifyRequest, action: string, status: number): void {
    const { topic, ...named } = (request.params ?? {}) as { topic?: string; id?: string };
    const note = auditNoteOf(request);
    // Other rejections changed nothing. A 409 may follow a part of the change (topic_has_jobs).
    if (status >= 400 && status < 500 && status !== 409 && note.always === undefined) return;
    const filter = shownFilter({ ...(topic === undefined ? named : {}), ...(request.query as object) });
    const at = wallNow();
    const { detail } = note;
    // A difference is noted before the write, and a rejected one was not made.
    const noted = status === 409 && detail?.changes !== undefined ? undefined : detail;
    const entry: AuditEntry = {
      id: makeAuditId(at),
      at,
      actor: note.actor ?? actorOf(request),
      address: request.raw.socket.remoteAddress ?? '',
      action,
      topic: note.topic ?? topic ?? null,
      jobId: topic === undefined ? null : (named.id ?? null),
      detail: noted ?? (filter === null ? null : { filter }),
      status,
      code: status < 400 ? null : (note.code ?? null),
    };
    this.#record(entry);
  }

  #record(entry: AuditEntry): void {
    const { id, at, ...fields } = entry;
    this.#log.audit({ at: formatInstant(at), ...fields });
    this.#held.push(entry);
    if (this.#held.length > apiLimits.auditHeldMax) {
      this.#held.shift();
      this.#dropped += 1;
    }
    this.#loop.wake();
  }

  async #write(): Promise<number> {
    const batch = this.#held.slice(0, limits.auditBatchMax);
    if (batch.length === 0) return limits.loopSleepMsMax;
    // Repeated after an unknown outcome: ids make that harmless.
    await this.#registry.addAudit(batch);
    const written = new Set(batch);
    this.#held = this.#held.filter((entry) => !written.has(entry));
    this.#failures.succeeded();
    if (this.#dropped > 0)
      this.#log.error('audit: some entries are in the log files only', undefined, { entries: this.#dropped });
    this.#dropped = 0;
    return 0;
  }
}

/** What a handler adds to the entry of its request: the difference it made, or the filter and the count. */
interface AuditNote {
  /** default: the topic of the path */
  readonly topic?: string | undefined;
  /** default: the caller's name */
  readonly actor?: string;
  /** default: the query as filter. Never bodies, secrets, values of headers or passwords */
  readonly detail?: AuditDetail;
  /** of a failed request */
  readonly code?: ErrorCode;
  /** recorded although the rejected call changed nothing */
  readonly always?: true;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** true: recorded whatever its access; false: the call changes nothing */
    audit?: boolean;
  }
}

const key = Symbol('audit');
type Noted = { [key]?: AuditNote };

export function auditNote(request: FastifyRequest, note: AuditNote): void {
  const noted = request.raw as Noted;
  noted[key] = { ...noted[key], ...note };
}

function auditNoteOf(request: FastifyRequest): AuditNote {
  return (request.raw as Noted)[key] ?? {};
}

/** Changes by operators: calls of the scopes operate and admin. Pushes and cancels are in the request log. */
export function isAudited(route: { readonly method: string | string[]; readonly config?: object }): boolean {
  const { access, audit } = (route.config ?? {}) as {
    access?: DeclaredAccess;
    audit?: boolean;
  };
  if (audit !== undefined) return audit;
  if (typeof access !== 'object' || [route.method].flat().every(isRead)) return false;
  return access.scope === 'operate' || access.scope === 'admin';
}
