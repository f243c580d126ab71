// Pages by cursor: how a list is asked for and answered.

import { type TSchema, Type } from 'typebox';
import { invalidField } from '../../core/errors.ts';
import { StoreError } from '../../ports/job-store.ts';
import { apiLimits } from '../limits.ts';
import { closed, nullable } from './schemas.ts';

export const pagingParams = {
  limit: Type.Optional(
    Type.String({
      description: `items of a page, 1–${apiLimits.pageItemsMax}; default ${apiLimits.pageItems}`,
    }),
  ),
  cursor: Type.Optional(Type.String({ description: 'nextCursor of the page before' })),
};

export const Missing = Type.Optional(
  Type.Array(Type.String(), {
    description: 'shards that do not answer, and what they hold is not here; absent when all answer',
  }),
);

export function pageOf(item: TSchema): TSchema {
  return closed({
    items: Type.Array(item),
    nextCursor: nullable('string', { description: 'null at the end' }),
    missing: Missing,
  });
}

export function readLimit(limit: string | undefined): number {
  if (limit === undefined) return apiLimits.pageItems;
  const items = /^[1-9]\d{0,8}$/.test(limit) ? Number(limit) : Number.NaN;
  if (items <= apiLimits.pageItemsMax) return items;
  throw invalidField('limit', `must be a whole number from 1 to ${apiLimits.pageItemsMax}`);
}

/** For the rejection of a list: a cursor that is none is the caller's mistake, everything else stays what it is. */
export function refuseCursor(error: unknown): never {
  if (error instanceof StoreError && error.failure.code === 'bad_cursor')
    throw invalidField('cursor', 'is not the nextCursor of a page');
  throw error;
}
