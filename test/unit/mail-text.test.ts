import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { helpOf, incidentKinds } from '../../src/core/incident.ts';
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
const textOf = (...ids: string[]) => deadJobsMail('t', ids.map(entry), daemon).text.split('\n');

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

  it('ends with a link to the dead letters of the topic, where console.publicUrl is set', () => {
    const linked = { ...daemon, publicUrl: 'https://dq.example.org' };
    const { text, data } = deadJobsMail('t.x', [entry('1')], linked);
    expect(text).toContain('\n\nIn the console: https://dq.example.org/dead?topic=t.x\n');
    expect(data).toMatchObject({
      command:
        'dq dead requeue --topic t.x --since 2030-01-31T00:00:00.000Z --until 2030-01-31T00:00:00.001Z',
      link: 'https://dq.example.org/dead?topic=t.x',
    });
    expect(textOf('1').join('\n')).not.toContain('In the console');
  });
});

describe('the mail about an incident', () => {
  const at = Date.UTC(2030, 0, 31);
  const shell = readFileSync(join(import.meta.dirname, '../../src/console/web/shell.tsx'), 'utf8');

  it.each(incidentKinds)('%s: says what is wrong, since when, and a command that exists', (kind) => {
    const incident = { kind, about: 'a', state: 'begun', at, detail: 'it fails' } as const;
    const publicUrl = 'https://dq.example.org/dq';
    const { text, data } = incidentsMail([incident], { ...daemon, publicUrl });
    const { command, does, logs } = helpOf(incident);
    expect(text).toMatch(/^2030-01-31T00:00:00\.000Z {2}it fails\n/);
    const cause = logs === undefined ? '' : `${logs.replace(/^the/, 'The')}.\n\n`;
    expect(text).toContain(
      `\n\nThis command ${does}:\n\n  ${command}\n\n${cause}In the console: ${publicUrl}/`,
    );
    // The lead-in to a command is about the command only.
    expect(does).not.toContain('log files');
    const [, name = ''] = command.split(' ');
    expect(Object.keys(commands)).toContain(name);
    const screen = /console: \S+\/dq\/(\w*)/.exec(text)?.[1] ?? '?';
    expect(shell).toContain(`\n  ${screen === '' ? "''" : screen}: { title: `);
    expect(data).toMatchObject({
      command,
      link: `${publicUrl}/${screen}`,
      incidents: [{ kind, topic: null }],
    });
  });

  it('of a failure that is over has no command', () => {
    const over = { kind: 'store', about: '', state: 'over', at, since: at - 90_000, detail: 'ok' } as const;
    const { text, data } = incidentsMail([over], daemon);
    expect(text).toContain('\n\nReported at 2030-01-30T23:58:30.000Z, over after 1m30s.\n');
    expect(text).not.toMatch(/command|console/);
    expect(data).toMatchObject({ command: null, link: null });
  });
});
