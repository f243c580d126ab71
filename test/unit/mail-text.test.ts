import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commands } from '../../src/cli/program.ts';
import { helpOf, incidentKinds } from '../../src/core/incident.ts';
import type { AttemptRecord } from '../../src/core/job.ts';
import { deadJobsMail, incidentsMail } from '../../src/mail/mail-text.ts';
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
const daemon = { host: 'h', version: 'v', publicUrl: '' };
const failed: AttemptRecord = {
  ...{ attempt: 9, startedAt: 1, durationMs: 1, outcome: 'failed', reason: 'connect', status: null },
  ...{ replyExcerpt: '', notifier: 'n', host: 'h', detail: 'connect ECONNREFUSED 127.0.0.1:17901' },
};
const textOf = (entries: readonly AlertEntry[], waiting: number | null = 0) =>
  deadJobsMail('t', entries, daemon, waiting).text.split('\n');
const died = (count: number, more: Partial<AlertEntry> = {}) =>
  Array.from({ length: count }, (_, n) => ({ ...entry(`job-${n}`), ...more }));

describe('the mail about dead jobs', () => {
  it('begins with how many died since when, of what, and how many wait', () => {
    const exhausted = { reason: 'attempts_exhausted', failures: 9, attempt: failed } as const;
    const since = '2030-01-31T00:00:00.000Z';
    const connect = 'connection refused (connect ECONNREFUSED 127.0.0.1:17901)';
    expect(textOf(died(112, exhausted), 32)[0]).toBe(
      `112 jobs died since ${since}, all: ${connect}; 32 still waiting`,
    );
    expect(textOf(died(1, exhausted), 0)[0]).toBe(`1 job died at ${since}: ${connect}; none still waiting`);
    const reply = { ...failed, reason: 'status', status: 502, detail: '' } as const;
    const mixed = [...died(2, { ...exhausted, attempt: reply }), ...died(3, exhausted)];
    expect(textOf(mixed, null)[0]).toBe(`5 jobs died since ${since}, 3 of them: ${connect}`);
    expect(textOf(died(1, { reason: 'expired' }))[0]).toBe(
      `1 job died at ${since}: expired; none still waiting`,
    );
    expect(textOf(died(1, { reason: 'gone', attempt: { ...reply, status: 410 } }))[0]).toContain(
      ': gone: status 410;',
    );
  });

  it('then has what to run, and some ids', () => {
    const lines = textOf(died(112, { reason: 'attempts_exhausted', failures: 9, attempt: failed }));
    expect(lines.slice(1, 13)).toEqual([
      ...['', '  dq explain t       says what the receiver does, and what waits'],
      '  dq topic test t    makes one call that changes no job',
      '  dq topic pause t   stops the calls',
      ...['', 'When the cause is gone, this command delivers these 112 again:', ''],
      '  dq dead requeue t --since 2030-01-31T00:00:00.000Z --until 2030-01-31T00:00:00.001Z',
      ...['', '  ids       job-0, job-1, job-2 and 109 more', '  attempts  9', ''],
    ]);
    const reply = { ...failed, reason: 'status', status: 500, detail: '', replyExcerpt: '{"a":1}' } as const;
    const one = textOf(died(1, { attempt: reply }));
    expect(one).toContain('  id        job-0');
    expect(one).toContain('  reply     {"a":1}');
    // dq does not call what clients pull.
    const pulled = textOf(died(1, { attempt: { ...failed, reason: 'nacked' } })).join('\n');
    expect(pulled).toContain('dq explain t ');
    expect(pulled).not.toMatch(/dq topic/);
  });

  it('ends with a link to the dead letters of the topic, where console.publicUrl is set', () => {
    const linked = { ...daemon, publicUrl: 'https://dq.example.org' };
    const { text, data } = deadJobsMail('t.x', [entry('1')], linked, null);
    expect(text).toContain('\n\nIn the console: https://dq.example.org/dead?topic=t.x\n');
    expect(data).toMatchObject({
      command: 'dq dead requeue t.x --since 2030-01-31T00:00:00.000Z --until 2030-01-31T00:00:00.001Z',
      link: 'https://dq.example.org/dead?topic=t.x',
    });
    expect(textOf([entry('1')]).join('\n')).not.toContain('In the console');
  });
});

describe('the mail about an incident', () => {
  const at = Date.UTC(2030, 0, 31);
  const shell = readFileSync(join(import.meta.dirname, '../../src/console/web/shell.tsx'), 'utf8');

  it.each(incidentKinds)('%s: says what is wrong, since when, and a command that exists', (kind) => {
    const incident = { kind, about: 'a', state: 'begun', at, detail: 'it fails' } as const;
    const publicUrl = 'https://dq.example.org/dq';
    const { text, data } = incidentsMail([incident], { ...daemon, publicUrl });
    const { command, does, also = [], logs } = helpOf(incident);
    // The subject says the rest.
    expect(text).toMatch(/^Reported at 2030-01-31T00:00:00\.000Z\.\n/);
    const cause = logs === undefined ? '' : `${logs.replace(/^the/, 'The')}.\n\n`;
    for (const one of also) expect(text).toMatch(new RegExp(`\n {2}${one.command} +${one.does}\n`));
    const single = `\n\nThis command ${does}:\n\n  ${command}\n\n${cause}`;
    expect(text).toContain(also.length > 0 ? `\n\n  ${command} ` : single);
    expect(text).toContain(`\n\nIn the console: ${publicUrl}/`);
    // The lead-in to a command is about the command only.
    expect(does).not.toContain('log files');
    const [, name = ''] = command.split(' ');
    expect(Object.keys(commands)).toContain(name);
    const screen = /console: \S+\/dq\/(\w*)/.exec(text)?.[1] ?? '?';
    expect(shell).toContain(`\n  ${screen === '' ? "''" : screen}: { title: `);
    expect(data).toMatchObject({
      command,
      link: expect.stringMatching(new RegExp(`^${publicUrl}/${screen}(/a)?$`)),
      incidents: [{ kind, topic: null }],
    });
  });

  it('of a failure that is over has no command', () => {
    const over = { kind: 'store', about: '', state: 'over', at, since: at - 90_000, detail: 'ok' } as const;
    const { text, data } = incidentsMail([over], daemon);
    expect(text).toMatch(/^Reported at 2030-01-30T23:58:30\.000Z, over after 1m30s\.\n/);
    expect(text).not.toMatch(/command|console/);
    expect(data).toMatchObject({ command: null, link: null });
  });

  it('repeats no subject, unless the subject is cut or names one of several', () => {
    const late = {
      kind: 'late',
      ...{ about: '', at, detail: 'jobs are late (topic t)' },
      state: 'begun',
      ...{ oldest: { topic: 't', id: '4711', dueAt: at - 90_000 }, waiting: 419 },
    } as const;
    const one = incidentsMail([late], daemon);
    expect(one.subject).toBe('dq: jobs are late (topic t)');
    expect(one.text.split('\n').slice(0, 6)).toEqual([
      ...['Reported at 2030-01-31T00:00:00.000Z.', '', '  oldest job  4711'],
      ...['  due         2030-01-30T23:58:30.000Z', '  waiting     419 of t', ''],
    ]);
    const long = { ...late, detail: `jobs are late: ${'x'.repeat(100)}` };
    expect(incidentsMail([long], daemon).text).toContain(`2030-01-31T00:00:00.000Z  ${long.detail}\n`);
    const store = { kind: 'store', about: '', state: 'begun', at, detail: 'the store fails' } as const;
    const two = incidentsMail([store, late], daemon);
    expect(two.subject).toBe('dq: 2 incidents: jobs are late (topic t)');
    expect(two.data).toMatchObject({ count: 2, open: 2 });
    expect(two.text).toMatch(/^2030\S+ {2}the store fails\n2030\S+ {2}jobs are late \(topic t\)\n/);
  });

  it('of several is led by one that still fails, and counts those that are over', () => {
    const of = (about: string, state: 'begun' | 'over', seconds: number) =>
      ({ kind: 'failing', about, state, at: at + seconds * 1_000, detail: `${about} ${state}` }) as const;
    const [a, b, end] = [of('a', 'begun', 0), of('b', 'begun', 1), of('b', 'over', 2)];
    const { subject, text, data } = incidentsMail([a, b, end], daemon);
    expect(subject).toBe('dq: 1 open, 1 over: a begun');
    expect(text).toMatch(/ {2}b begun\n.* {2}b over\n.* {2}a begun\n/);
    expect(data).toMatchObject({ command: expect.any(String), count: 2, open: 1 });
    const ended = incidentsMail([a, b, end, of('a', 'over', 3)], daemon);
    expect(ended).toMatchObject({ subject: 'dq: 2 incidents: a over', data: { command: null, open: 0 } });
  });
});
