import { describe, expect, it } from 'vitest';
import { needsRestart } from '../../src/config/needs-restart.ts';
import type { Config } from '../../src/config/options.ts';
import { defaultConfig } from '../role/rig.ts';

const config = (more: Partial<Config>): Config => ({ ...defaultConfig, dataDir: '/a', ...more });
/** The change that `dq restart` loads; null: none. */
function asked(old: Partial<Config>, next: Partial<Config>): string | null {
  const sentence = needsRestart(config(old), config(next));
  if (sentence === null) return null;
  const [, change] = /^(.*): needs `dq restart`$/.exec(sentence) ?? [];
  expect(change).toBeDefined();
  return change ?? null;
}

describe('a change of the configuration needs a restart', () => {
  it('dataDir changed: the data has to be moved', () => {
    expect(needsRestart(config({}), config({ dataDir: '/b' }))).toBe(
      'dataDir was changed from /a to /b; dq moves no data: stop it, move the directory, and start it',
    );
  });

  it('restart: redis added or removed', () => {
    const [a, b] = [['redis://a'], ['redis://b']];
    const change = 'redis was changed: the jobs would be in another store';
    expect(asked({}, { redis: a })).toBe(change);
    expect(asked({ redis: a }, {})).toBe(change);
    expect(asked({ redis: a }, { redis: b })).toBeNull();
    expect(asked({ redis: a }, { redis: [...a] })).toBeNull();
  });

  it('restart: an option of the journal changed', () => {
    expect(asked({}, { 'journal.mode': 'sync' })).toBe('journal.mode was changed from off to sync');
    expect(asked({}, { 'journal.spoolBytes': 2 ** 28 })).toContain('journal.spoolBytes was changed');
    expect(asked({}, { 'journal.retention': 2 * 86_400_000 })).toContain('journal.retention was changed');
  });

  it('restart: server.host between one and all addresses on one port', () => {
    for (const [one, all] of [
      ['127.0.0.1', '0.0.0.0'],
      ['::1', '::'],
    ] as const) {
      expect(asked({ 'server.host': one }, { 'server.host': all })).toContain('on the same port');
      expect(asked({ 'server.host': all }, { 'server.host': one })).toContain('on the same port');
      expect(asked({ 'server.host': one }, { 'server.host': all, 'server.port': 7000 })).toBeNull();
    }
    expect(asked({ 'server.host': '127.0.0.1' }, { 'server.host': '127.0.0.2' })).toBeNull();
  });

  it('restart: console.host between one and all addresses on one port, while it listens', () => {
    const all = { 'console.host': '0.0.0.0' };
    expect(asked({}, all)).toContain('console.host was changed from 127.0.0.1 to 0.0.0.0');
    expect(asked({}, { ...all, 'console.port': 7000 })).toBeNull();
    expect(asked({}, { ...all, 'console.enabled': false })).toBeNull();
    expect(asked({ 'console.enabled': false }, all)).toBeNull();
  });

  it('restart: the servers and the console exchange a port', () => {
    const both = (server: number, console: number | null) => ({
      'server.port': server,
      'console.port': console,
    });
    expect(asked(both(6789, null), both(8088, null))).toContain('which the console uses');
    expect(asked(both(8088, 9000), both(6789, null))).toContain('which the HTTP API uses');
    expect(asked(both(8088, 9000), { ...both(6789, 8088), 'console.enabled': false })).toBeNull();
    expect(asked(both(0, 0), both(0, 0))).toBeNull();
  });

  it('restart: a port changes between the HTTP API, the console and another protocol', () => {
    const php = (server: number, port: number | null) => ({ 'server.port': server, 'compat.php.port': port });
    expect(asked(php(6789, null), php(6780, 6789))).toBe(
      'compat.php.port was changed to 6789, which the HTTP API uses',
    );
    expect(asked(php(6780, 6789), php(6789, null))).toContain('which compat.php.port uses');
    expect(asked(php(6780, null), php(6780, 8088))).toContain('which the console uses');
    expect(asked(php(6780, null), php(6780, 6789))).toBeNull();
    expect(asked(php(6780, 6789), php(6780, 6790))).toBeNull();
    expect(asked(php(0, 0), php(0, 0))).toBeNull();
  });

  it('restart: compat.host between one and all addresses on one port', () => {
    const all = { 'compat.host': '0.0.0.0' };
    expect(asked({ 'compat.php.port': 1 }, { ...all, 'compat.php.port': 1 })).toContain(
      'compat.host was changed',
    );
    expect(asked({}, all)).toBeNull();
  });

  it('restart: no other change needs it', () => {
    expect(
      asked(
        {},
        { 'server.port': 1, 'server.workers': 9, logDir: '/l', 'notifier.slots': 3, timezone: 'UTC' },
      ),
    ).toBeNull();
  });
});
