// Mistakes of the search.

import { change, type Mutant, mutant } from './mutant.ts';

const asked = (filter: object) => `search: applies the filter ${JSON.stringify(filter)}`;
const pages = 'search: pages skip and repeat nothing while others come or go';
const range = 'search: filters by due time, since included, until not';

export const searchMutants: readonly Mutant[] = [
  ...(
    [
      ['topic', { topic: 'a' }],
      ['state', { state: 'dead' }],
      ['id', { id: 'delayed' }],
    ] as const
  ).map(([name, filter]) =>
    mutant(`search ignores the ${name}`, asked(filter), (m) =>
      change(
        m,
        'isFound',
        (right) =>
          ({ [name]: _, ...rest }, job) =>
            right(rest, job),
      ),
    ),
  ),
  mutant(
    'search ignores the moment',
    'search: before a moment, only versions from before it, by list and by id',
    (m) =>
      change(
        m,
        'isFound',
        (right) =>
          ({ before: _, ...rest }, job) =>
            right(rest, job),
      ),
  ),
  mutant('search matches the beginning of an id', asked({ id: 'delaye' }), (m) =>
    change(m, 'isFound', (right) => (filter, job) => {
      const { id, ...rest } = filter;
      return right(rest, job) && (id === undefined || job.id.startsWith(id));
    }),
  ),
  mutant('search leaves out dead jobs', asked({}), (m) =>
    change(m, 'foundLive', (right) => () => right().filter(({ state }) => state !== 'dead')),
  ),
  mutant('search shows ended jobs', asked({ id: 'done' }), (m) =>
    change(m, 'foundLive', (right) => () => [...right(), ...m.foundEnded()]),
  ),
  mutant('search leaves out jobs due at since', range, (m) =>
    change(
      m,
      'isFound',
      (right) =>
        ({ since, ...rest }, job) =>
          right(since === undefined ? rest : { ...rest, since: since + 1 }, job),
    ),
  ),
  mutant('search includes jobs due at until', range, (m) =>
    change(
      m,
      'isFound',
      (right) =>
        ({ until, ...rest }, job) =>
          right(until === undefined ? rest : { ...rest, until: until + 1 }, job),
    ),
  ),
  mutant('search sorts by version', asked({ state: 'delayed' }), (m) =>
    change(m, 'foundLive', (right) => () => right().sort((a, b) => a.version - b.version)),
  ),
  mutant('search lists the earliest end first', 'search: lists the latest end first', (m) =>
    change(m, 'foundEnded', (right) => () => right().reverse()),
  ),
  mutant('a cursor is a number of rows', pages, (m) =>
    change(m, 'search', (right) => (filter, limit, cursor) => {
      const all = right(filter, 1_000, null).items;
      const from = Number(cursor ?? 0);
      const items = all.slice(from, from + limit);
      return { items, nextCursor: from + limit < all.length ? String(from + limit) : null };
    }),
  ),
];
