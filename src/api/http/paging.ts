// paging.ts reads the paging parameters of lists and describes their pages.

import { type TSchema, Type } from 'typebox';
import { invalidField } from '../../core/errors.ts';
import { StoreError } from '../../ports/store-error.ts';
import { apiLimits } from '../limits.ts';
import { closed, nullable, text } from './schemas.ts';

export const pagingParams = {
  limit: Type.Optional(
    Type.String({
      description: `items of a page, 1–${apiLimits.pageItemsMax}`,
      default: String(apiLimits.pageItems),
      examples: ['20'],
    }),
  ),
  cursor: Type.Optional(text('nextCursor of the previous page', 'b3JkZXIuY2xvc2U')),
};

export const Missing = Type.Optional(
  Type.Array(Type.String(), {
    description: 'shards that did not answer: their jobs are not included; absent when all answered',
    examples: [['s2']],
  }),
);
export const NextCursor = nullable('string', {
  description: 'cursor of the next page; null on the last page',
  examples: ['b3JkZXIuY2xvc2U'],
});

/** `more`: further members of the page */
export function pageOf(item: TSchema, more: Record<string, TSchema> = {}): TSchema {
  return closed({ items: Type.Array(item), nextCursor: NextCursor, missing: Missing, ...more });
}

/** Throws DqError invalid. */
export function readLimit(limit: string | undefined, max: number = apiLimits.pageItemsMax): number {
  if (limit === undefined) return apiLimits.pageItems;
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
