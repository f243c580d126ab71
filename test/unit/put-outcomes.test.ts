// What the journal learns from a put-back.

import { expect, it } from 'vitest';
import { rowOf } from '../../src/core/job-change.ts';
import { changeOf } from '../../src/journal/heal/put-outcomes.ts';

it('removed: the end is recorded with the number of the removal, and changes nothing else', () => {
  const key = { topic: 't', id: '1' };
  const its = { origin: 3, dueAt: 7, failures: 2, attempt: null };
  const ended = rowOf({
    ...key,
    ...its,
    kind: 'ended',
    end: 'purged',
    isOwn: true,
    number: 9,
    version: 9,
    place: 'a:0',
  });
  const [change] = changeOf(ended, { kind: 'removed', place: 'b:1', number: 12 });
  expect(change).toMatchObject({
    ...{ ...key, ...its, kind: 'ended', end: 'purged', isOwn: true },
    ...{ number: 12, version: 9, place: 'b:1' },
  });
});
