// The query language of the console: texts and filters are one query.
import { expect, it } from 'vitest';
import { readDue, readQuery, screenOf, writeQuery } from '../../src/console/web/find-query.ts';

it.each([
  [
    'topic:vip.recall state:dead id:vip-2026* body:"88120" due:-1h..+3h',
    { topic: 'vip.recall', state: 'dead', idPrefix: 'vip-2026', body: '88120', due: '-1h..+3h' },
  ],
  ['lastReason:timeout status:5xx', { lastReason: 'timeout', status: '5xx' }],
  ['deadReason:gone', { deadReason: 'gone' }],
  ['id:4711', { id: '4711' }],
  ['id:"a b"', { id: 'a b' }],
  ['id:"all*"', { id: 'all*' }],
  [String.raw`body:"say \"hi\" \\"`, { body: 'say "hi" \\' }],
])('find query: reads %s, and writes what it reads back', (text, query) => {
  expect(readQuery(text)).toEqual({ query, text: '' });
  expect(readQuery(writeQuery(query))).toEqual({ query, text: '' });
});

it.each([
  ['4711', '4711'],
  ['a  b', 'a b'],
  ['"a b"', 'a b'],
  ['http://x:80/', 'http://x:80/'],
  ['color:red', 'color:red'],
  ['', ''],
])('find query: %s is text', (input, text) => {
  expect(readQuery(input)).toEqual({ query: {}, text });
});

it('find query: causes lead to the dead letters, all else to the jobs', () => {
  expect(screenOf({ status: '5xx' })).toBe('dead');
  expect(screenOf({ lastReason: 'timeout', topic: 't' })).toBe('dead');
  expect(screenOf({ state: 'dead' })).toBe('jobs');
});

it('find query: due ranges count from now', () => {
  const now = Date.parse('2026-11-22T00:00:00Z');
  const hour = 3_600_000;
  expect(readDue('-1h..+3h', now)).toEqual({ since: String(now - hour), until: String(now + 3 * hour) });
  expect(readDue('..30m', now)).toEqual({ since: '', until: String(now + hour / 2) });
  expect(readDue('now..', now)).toEqual({ since: String(now), until: '' });
  expect(readDue('2026-11-22T01:00:00Z..', now)).toEqual({ since: String(now + hour), until: '' });
  expect(readDue('30m', now)).toEqual({ since: String(now), until: String(now + hour / 2) });
  expect(readDue('-1h', now)).toEqual({ since: String(now - hour), until: String(now) });
  for (const wrong of ['', '..', '1x', 'now+', '-1x..', 'a..b']) expect(readDue(wrong, now)).toBeNull();
});
