// store-failed.ts words a failure of the store as an error for its caller. The server that failed is named
// only in DqError.namingServer.

import { DqError, type ErrorCode } from '../core/errors.ts';
import { remedyOf, type StoreFailure } from '../ports/store-error.ts';

/** A call that surely changed nothing. `what`: the start of a sentence; `again`: as in remedyOf */
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
