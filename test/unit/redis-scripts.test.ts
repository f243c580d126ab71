// Tests the grammar of the scripts: headers, flags, and their allowed work on a full server.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { probedCommands } from '../../src/store/redis/client/rights.ts';
import { composeScripts, scriptNames } from '../../src/store/redis/scripts/scripts.ts';

const directory = join(import.meta.dirname, '../../src/store/redis/scripts/lua');
const names = (folder: string) => readdirSync(folder).filter((name) => name.endsWith('.lua'));
const operations = names(directory).map(
  (name) => [name, readFileSync(join(directory, name), 'utf8')] as const,
);
const parts = names(join(directory, 'shared')).map(
  (name) => [name, readFileSync(join(directory, 'shared', name), 'utf8')] as const,
);
/** These make the store larger, so a full server rejects them. */
const rejectedWhenFull = ['push.lua', 'edit.lua', 'requeue.lua', 'dead-requeue.lua', 'restore.lua'];
const reading =
  /^(get|position|scan|horizon|dead-list|dead-last|history-get|alert-due|alert-list|alert-state|counts|counts-of|examine|count-quarantined|ids|lacks|marks|walk|search-.*)\.lua$/;
const writingCalls = /call\('(HSET|HDEL|ZADD|ZREM|ZREMRANGEBYRANK|PUBLISH|SET)'/;

describe('scripts', () => {
  it.each(operations)('%s begins with its flags and its contract', (name, text) => {
    const [first, verb, ...rest] = text.split('\n');
    expect(first).toBe(
      rejectedWhenFull.includes(name)
        ? '#!lua'
        : `#!lua flags=${reading.test(name) ? 'no-writes,' : ''}allow-oom`,
    );
    expect(verb).toMatch(/^-- [a-zA-Z-]+: [^.]+/);
    const header = rest
      .slice(
        0,
        rest.findIndex((line) => !line.startsWith('--')),
      )
      .join('\n');
    for (const tag of ['@keys', '@args', '@returns']) expect(header).toContain(`-- ${tag} `);
    expect(header.includes('-- @writes ')).toBe(!reading.test(name));
    expect(reading.test(name) && writingCalls.test(text)).toBe(false);
  });

  it.each(parts)('shared/%s begins with its name', (name, text) => {
    expect(text.split('\n')[0]).toMatch(new RegExp(`^-- ${name.slice(0, -4)}: \\S`));
  });

  it('every file is a script', () => {
    const camel = operations.map(([name]) =>
      name.slice(0, -4).replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase()),
    );
    expect(camel.sort()).toEqual([...scriptNames].sort());
  });

  it.each([...operations, ...parts])(
    '%s reads the clock only in clock.lua, and prints whole numbers',
    (name, text) => {
      expect(text.includes("call('TIME')")).toBe(name === 'clock.lua');
      // %d cuts a version to 32 bits on some builds, and %g drops its last digits.
      expect(text).not.toMatch(/'%d'|%g/);
    },
  );

  it('mark tries every command of the scripts except PUBLISH', () => {
    const mark = operations.find(([name]) => name === 'mark.lua')?.[1] ?? '';
    const used = [...operations, ...parts].flatMap(([, text]) => [...text.matchAll(/\bp?call\('([A-Z]+)'/g)]);
    const tried = new Set([...mark.matchAll(/\{ '([A-Z]+)'/g)].map(([, name]) => name));
    expect(new Set(used.map(([, name]) => name).filter((name) => name !== 'PUBLISH'))).toEqual(tried);
    // When one is denied, rights.ts probes all of them.
    expect(probedCommands).toEqual(expect.arrayContaining([...tried]));
  });

  it('composeScripts: replaces parts and keeps the shebang', () => {
    expect(() => composeScripts({ clock: 'x' })).not.toThrow();
    for (const text of Object.values(composeScripts())) expect(text.startsWith('#!lua')).toBe(true);
  });
});
