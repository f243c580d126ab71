// paging.ts reads the paging parameters of lists and describes their pages.

import { contractLimits } from '../../contract/api/limits.ts';
import { invalidField } from '../../core/errors.ts';
import { StoreError } from '../../ports/store-error.ts';

/** Throws DqError invalid. */
export function readLimit(
  limit: string | undefined,
  max: number = contractLimits.pageItemsMax,
  byDefault: number = contractLimits.pageItems,
): number {
  if (limit === undefined) return byDefault;
  const items = /^[1-9]\d{0,8}$/.test(limit) ? Number(limit) : Number.NaN;
  if (items <= max) return items;
  throw invalidField('limit', `must be a whole number from 1 to ${max}`);
}

/** Rejection handler of a list call: turns an invalid cursor into DqError invalid, and throws other errors
 *  unchanged. */
export function rejectBadCursor(error: unknown): never {
  if (error instanceof StoreError && error.failure.code === 'bad_cursor') throw invalidCursor();
  throw error;
}

export function invalidCursor() {
  return invalidField('cursor', 'must be the nextCursor of a page; leave it out for the first page');
}
