import { describe, expect, it } from 'vitest';
import { deadJobsMail } from '../../src/mail/mail-text.ts';
import type { AlertEntry } from '../../src/ports/job-store.ts';

const entry = (id: string): AlertEntry => ({
  topic: 't',
  id,
  version: 1,
  deadAt: Date.UTC(2030, 0, 31),
  reason: 'gone',
  failures: 1,
  attempt: null,
  state: 'claimed',
});
const textOf = (...ids: string[]) =>
  deadJobsMail('t', ids.map(entry), { host: 'h', version: 'v' }).text.split('\n');

describe('the mail about dead jobs', () => {
  it('writes of one job in the singular', () => {
    const lines = textOf('1');
    expect(lines[0]).toBe('1 job of the topic t will not be tried again. It is kept as a dead letter.');
    expect(lines).toContain('When the cause is gone, this command delivers it again:');
  });

  it('writes of several jobs in the plural', () => {
    const lines = textOf('1', '2');
    expect(lines[0]).toBe('2 jobs of the topic t will not be tried again. They are kept as dead letters.');
    expect(lines).toContain('When the cause is gone, this command delivers them again:');
  });
});
