// Mistakes of the search.

import { change, type Mutant, mutants } from './mutant.ts';

const asked = (filter: object) => `search: applies the filter ${JSON.stringify(filter)}`;

export const searchMutants: readonly Mutant[] = mutants({
  'search: before a moment, only versions from before it, by list and by id': {
    'search ignores the moment': change(
      'isFound',
      (right) =>
        ({ before: _, ...rest }, job) =>
          right(rest, job),
    ),
  },
  [asked({ id: 'delaye' })]: {
    'search matches the beginning of an id': change('isFound', (right) => (filter, job) => {
      const { id, ...rest } = filter;
      return right(rest, job) && (id === undefined || job.id.startsWith(id));
    }),
  },
  'search: filters by due time, since included, until not': {
    'search leaves out jobs due at since': change(
      'isFound',
      (right) =>
        ({ since, ...rest }, job) =>
          right(since === undefined ? rest : { ...rest, since: since + 1 }, job),
    ),
    'search includes jobs due at until': change(
      'isFound',
      (right) =>
        ({ until, ...rest }, job) =>
          right(until === undefined ? rest : { ...rest, until: until + 1 }, job),
    ),
  },
  'search: lists the latest end first': {
    'search lists the earliest end first': change('foundEnded', (right) => () => right().reverse()),
  },
  'search: pages skip and repeat nothing while others come or go': {
    'a cursor is a number of rows': change('search', (right) => (filter, limit, cursor) => {
      const all = right(filter, 1_000, null).items;
      const from = Number(cursor ?? 0);
      const items = all.slice(from, from + limit);
      return { items, nextCursor: from + limit < all.length ? String(from + limit) : null };
    }),
  },
});
