// Mistakes of the search.

import { change, type Mutant, mutant, mutants } from './mutant.ts';

const asked = (filter: object) => `search: applies the filter ${JSON.stringify(filter)}`;
const pages = 'search: pages skip and repeat nothing while others come or go';
const range = 'search: filters by due time, since included, until not';

export const searchMutants: readonly Mutant[] = [
  ...mutants({
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
    [asked({})]: {
      'search leaves out dead jobs': change(
        'foundLive',
        (right) => () => right().filter(({ state }) => state !== 'dead'),
      ),
    },
    [asked({ id: 'done' })]: {
      'search shows ended jobs': change('foundLive', (right, m) => () => [...right(), ...m.foundEnded()]),
    },
    [range]: {
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
    [asked({ state: 'delayed' })]: {
      'search sorts by version': change(
        'foundLive',
        (right) => () => right().sort((a, b) => a.version - b.version),
      ),
    },
    'search: lists the latest end first': {
      'search lists the earliest end first': change('foundEnded', (right) => () => right().reverse()),
    },
    [pages]: {
      'a cursor is a number of rows': change('search', (right) => (filter, limit, cursor) => {
        const all = right(filter, 1_000, null).items;
        const from = Number(cursor ?? 0);
        const items = all.slice(from, from + limit);
        return { items, nextCursor: from + limit < all.length ? String(from + limit) : null };
      }),
    },
  }),
  ...(
    [
      ['topic', { topic: 'a' }],
      ['state', { state: 'dead' }],
      ['id', { id: 'delayed' }],
    ] as const
  ).map(([name, filter]) =>
    mutant(
      `search ignores the ${name}`,
      asked(filter),
      change(
        'isFound',
        (right) =>
          ({ [name]: _, ...rest }, job) =>
            right(rest, job),
      ),
    ),
  ),
];
