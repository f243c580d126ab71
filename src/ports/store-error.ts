// The failures of a store or registry call. A caller must know whether its write may have been applied.

import { DqError, type ErrorCode } from '../core/errors.ts';

export type StoreFailure =
  /** surely not applied: full, read-only, unavailable, rejected */
  | ({ readonly kind: 'not_stored' } & Cause)
  /** perhaps applied: no reply, broken connection, death of the file's owner */
  | ({ readonly kind: 'unknown' } & Cause);

interface Cause {
  readonly code: string;
  /** The server, its error and the remedy, as a health check names them; absent: only the code is known. For
   *  callers that may see the servers. */
  readonly why?: string;
}

/** Whether an outcome is one. */
export function isFailure(outcome: object): outcome is StoreFailure {
  const { kind } = outcome as Partial<StoreFailure>;
  return kind === 'not_stored' || kind === 'unknown';
}

/** A read of all jobs lacks those of these shards. */
export const shardsAway = (missing: readonly string[]): StoreFailure => ({
  kind: 'not_stored',
  code: 'shard_away',
  why: `no answer of ${missing.join(', ')}; \`dq shard ls\` names the cause`,
});

/** Of a jobs.db that dq leaves for Redis (leaving.ts). */
export const leavingFailure: StoreFailure = { kind: 'not_stored', code: 'leaving' };

export class StoreError extends Error {
  readonly failure: StoreFailure;
  /** an operator's name of the failed server or file */
  readonly where: 'store' | 'MySQL';
  constructor(failure: StoreFailure, options?: ErrorOptions & { readonly where?: 'MySQL' }) {
    const where = options?.where ?? 'store';
    super(`${where}: ${failure.kind} (${failure.code})`, options);
    this.name = 'StoreError';
    this.failure = failure;
    this.where = where;
  }
}

/** For operators: the code of a failed call. */
export const failureCodeOf = (error: unknown): string =>
  error instanceof StoreError ? error.failure.code : 'unexpected_error';

/** MySQL cannot store a value as it is: NULL, out of its range, too long, or of another character set. */
export const valueFailures = [1048, 1264, 1265, 1292, 1366, 1367, 1406].map((errno) => `mysql_${errno}`);

/** No repeat of the call ends these: the configuration, a right, the schema or the value must change. */
const permanent: ReadonlySet<string> = new Set([
  'access_denied',
  'no_database',
  'no_table',
  'refused',
  ...valueFailures,
  'bad_schema',
  'store_damaged',
  'registry_damaged',
  'redis_denied',
  'redis_no_database',
  'redis_set_up',
  'redis_unsupported',
  'foreign_marker',
]);

/** What the caller does about a failure with this code, as the end of a sentence. `again`: `try again` */
export function remedyOf(code: string, again: string): string {
  return permanent.has(code) ? `a repeat does not help: \`dq doctor\` names the cause` : again;
}

/** The error of a call that surely changed nothing. Names the server that failed only in
 *  DqError.namingServer. `what`: the start of a sentence; `again`: as in remedyOf */
export function storeFailed(
  error: ErrorCode,
  what: string,
  { code, why }: StoreFailure,
  again: string,
  cause?: unknown,
): DqError {
  const namingServer = why === undefined ? undefined : `${what} (${code}): ${why}`;
  return new DqError(error, `${what} (${code}); ${remedyOf(code, again)}`, { namingServer, cause });
}
