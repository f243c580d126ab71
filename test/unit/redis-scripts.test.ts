// The grammar of the scripts: what a reader finds at the top of each, and what each may do on a full server.
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
/** They make the store larger, and stop first when it is full. */
const refusedWhenFull = ['push.lua', 'requeue.lua', 'dead-requeue.lua'];
const reading =
  /^(get|dead-list|history-get|alert-due|alert-list|counts|examine|set-aside|ids|search-.*)\.lua$/;
const writingCalls = /call\('(HSET|HDEL|ZADD|ZREM|ZREMRANGEBYRANK|PUBLISH|SET)'/;

describe('scripts', () => {
  it.each(operations)('%s opens with its flags and its contract', (name, text) => {
    const [first, verb, ...rest] = text.split('\n');
    expect(first).toBe(
      refusedWhenFull.includes(name)
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

  it.each(parts)('shared/%s says what it is', (name, text) => {
    expect(text.split('\n')[0]).toMatch(new RegExp(`^-- ${name.slice(0, -4)}: \\S`));
  });

  it('every file of an operation is a script', () => {
    const camel = operations.map(([name]) =>
      name.slice(0, -4).replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase()),
    );
    expect(camel.sort()).toEqual([...scriptNames].sort());
  });

  it.each([...operations, ...parts])(
    '%s reads the clock in one place, and compares no strings',
    (name, text) => {
      expect(text.includes("call('TIME')")).toBe(name === 'clock.lua');
      // %d of a version would be cut to 32 bits on some builds, and a number in a text loses its last digits.
      expect(text).not.toMatch(/'%d'|%g/);
    },
  );

  it('every command that a script uses is tried before a bucket is used, but hints', () => {
    const mark = operations.find(([name]) => name === 'mark.lua')?.[1] ?? '';
    const used = [...operations, ...parts].flatMap(([, text]) => [...text.matchAll(/\bp?call\('([A-Z]+)'/g)]);
    const tried = new Set([...mark.matchAll(/\{ '([A-Z]+)'/g)].map(([, name]) => name));
    expect(new Set(used.map(([, name]) => name).filter((name) => name !== 'PUBLISH'))).toEqual(tried);
    // And asked one by one when something is denied, to name all that is.
    expect(probedCommands).toEqual(expect.arrayContaining([...tried]));
  });

  it('a part that does not exist is a mistake, not an empty text', () => {
    expect(() => composeScripts({ clock: 'x' })).not.toThrow();
    for (const text of Object.values(composeScripts())) expect(text.startsWith('#!lua')).toBe(true);
  });
});
