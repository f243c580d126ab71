// Classifies failures of Redis and of the client library for a caller (failures.ts).
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/ports/store-error.ts';
import { failureOf, isScriptError, UnsentError } from '../../src/store/redis/client/failures.ts';

const reply = (message: string) => Object.assign(new Error(message), { name: 'ReplyError' });

const rejected: readonly (readonly [string, string])[] = [
  [
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
    'redis_full',
  ],
  ["OOM command not allowed when used memory > 'maxmemory'.", 'redis_full'],
  ["READONLY You can't write against a read only replica.", 'redis_read_only'],
  ['READONLY Can not run script with write flag on readonly replica.', 'redis_read_only'],
  ['NOREPLICAS Not enough good replicas to write.', 'redis_no_replicas'],
  [
    'MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.',
    'redis_cannot_write',
  ],
  ['MISCONF Errors writing to the AOF file: No space left on device', 'redis_cannot_write'],
  ['LOADING Redis is loading the dataset in memory', 'redis_loading'],
  ['CLUSTERDOWN The cluster is down', 'redis_cluster_down'],
  ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", 'redis_master_down'],
  ['TRYAGAIN Multiple keys request during rehashing of slot', 'redis_slot_moves'],
  ['MOVED 3999 127.0.0.1:6381', 'redis_slot_moves'],
  ['ASK 3999 127.0.0.1:6381', 'redis_slot_moves'],
  ['NOAUTH Authentication required.', 'redis_denied'],
  ['WRONGPASS invalid username-password pair or user is disabled.', 'redis_denied'],
  ["NOPERM this user has no permissions to run the 'evalsha' command", 'redis_denied'],
  ['NOSCRIPT No matching script. Please use EVAL.', 'redis_script_lost'],
  ['BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.', 'redis_busy'],
  ['DQNOMARKER this bucket has no marker', 'no_marker'],
  ['DQFOREIGN this bucket belongs to another store', 'foreign_marker'],
  ['DQSTALELIST jobs are placed by a newer list of shards', 'stale_list'],
];

const lost: readonly (readonly [string, unknown])[] = [
  ['a command that timed out', new Error('Command timed out')],
  ['a connection that closed under it', new Error('Connection is closed.')],
  [
    'an aborted command',
    Object.assign(new Error('Command aborted due to connection close'), { name: 'AbortError' }),
  ],
  [
    'retries used up',
    Object.assign(new Error('Reached the max retries per request limit'), {
      name: 'MaxRetriesPerRequestError',
    }),
  ],
  ['a reset', Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })],
  ['a silent socket', new Error("Socket timeout. Expecting data, but didn't receive any in 8000ms.")],
  ['a value that is not an Error', 'broken'],
  // Only a reply of the server is a rejection, not a text that looks like one.
  ['an own error that begins like a rejection', new Error('OOM in this process')],
];

describe('failures of Redis', () => {
  it.each(rejected)('%s: not applied', (message, code) => {
    expect(failureOf(reply(message))).toEqual({ kind: 'not_stored', code });
    expect(isScriptError(reply(message))).toBe(false);
  });

  it('a command that was never written: not applied', () => {
    const error = new Error("Stream isn't writeable and enableOfflineQueue options is false");
    expect(failureOf(error)).toEqual({ kind: 'not_stored', code: 'redis_away' });
  });

  it('a command that the Cluster client never sent: not applied', () => {
    const error = new UnsentError(new Error('Connection is closed.'));
    expect(failureOf(error)).toEqual({ kind: 'not_stored', code: 'redis_away' });
  });

  it.each(['TRYAGAIN Multiple keys request during rehashing of slot', 'ASK 3999 127.0.0.1:6381'])(
    'too many redirections, the last by %s: not applied',
    (message) => {
      const error = new Error(`Too many Cluster redirections. Last error: ${reply(message)}`);
      expect(failureOf(error)).toEqual({ kind: 'not_stored', code: 'redis_slot_moves' });
    },
  );

  it('too many redirections, then a closed connection: unknown', () => {
    const error = new Error('Too many Cluster redirections. Last error: Error: Connection is closed.');
    expect(failureOf(error)).toMatchObject({ kind: 'unknown' });
  });

  it.each(lost)('%s: unknown', (_, error) => {
    expect(failureOf(error)).toMatchObject({ kind: 'unknown' });
    expect(isScriptError(error)).toBe(false);
  });

  it.each([
    'ERR user_script:12: attempt to index a nil value script: 0a, on @user_script:12.',
    'OOM command not allowed. script: e3a4ee9fbda0eb421933a84ad02ff06eac6049a6, on @user_script:2.',
    'WRONGTYPE Operation against a key holding the wrong kind of value',
    // Denied after the script has written: texts of Redis 7.0 and later.
    "ERR The user executing the script can't run this command or subcommand script: 0a, on @user_script:402.",
    "NOPERM ACL failure in script: User dq has no permissions to run the 'hdel' command script: 0a, on @user_script:402.",
  ])('%s: unknown, and a mistake of a script', (message) => {
    expect(failureOf(reply(message))).toEqual({ kind: 'unknown', code: 'redis_script_failed' });
    expect(isScriptError(reply(message))).toBe(true);
  });

  it('a StoreError keeps its failure', () => {
    const failure = { kind: 'not_stored', code: 'redis_behind' } as const;
    expect(failureOf(new StoreError(failure))).toEqual(failure);
  });
});
