// Tests the log files: their names, rotation, daily limit, failing disks, and removal.
import { execFileSync, spawn } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { StoreError } from '../../src/ports/store-error.ts';
import { mysqlError } from '../../src/registry/sql/mysql/mysql-failure.ts';
import { telemetryLimits } from '../../src/telemetry/limits.ts';
import type { OpenLog } from '../../src/telemetry/log.ts';
import { outputName, removeOldLogs, trimOutput } from '../../src/telemetry/log-file.ts';
import { type LogOptions, openLog } from '../../src/telemetry/open-log.ts';
import { testDirectory } from '../support/directory.ts';
import { until } from '../support/until.ts';
import { words } from '../support/words.ts';

const noon = Date.parse('2030-01-31T12:00:00Z');
let parent = '';
let directory = '';
let now = noon;
const logs: OpenLog[] = [];

beforeEach(() => {
  parent = testDirectory();
  directory = join(parent, 'logs');
  now = noon;
});
afterEach(async () => {
  for (const log of logs.splice(0)) await log.close();
});

function open(config: Partial<LogOptions['config']> = {}, more: Partial<LogOptions> = {}): OpenLog {
  // A slow disk, or a process that stands still, loses no line.
  return openWithDefaults(config, { closeMs: 60_000, ...more });
}

/** Its close() waits as long as that of a daemon. */
function openWithDefaults(
  config: Partial<LogOptions['config']> = {},
  more: Partial<LogOptions> = {},
): OpenLog {
  const log = openLog({
    config: {
      ...{ logDir: directory, 'log.level': 'info', 'log.request': 'all', 'log.notify': 'all' },
      ...{ 'log.bytesMaxPerDay': 0, timezone: 'UTC' },
      ...config,
    },
    role: 'server',
    index: 0,
    title: 'dq-server-0',
    now: () => now,
    ...more,
  });
  logs.push(log);
  return log;
}

const pathOf = (kind: string, day = 20_300_131) => join(directory, `${kind}-server-0-${day}.log`);
type Line = Record<string, unknown>;
function linesOf(path: string): Line[] {
  if (!existsSync(path)) return [];
  const text = readFileSync(path, 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}
const hasLines = (path: string, n: number) =>
  until(`${n} lines in ${path}`, () => linesOf(path).length === n);

describe('lines and their files', () => {
  it('writes each kind to its file, with process and time', async () => {
    const log = open();
    log.notice('ready', { url: 'http://x' });
    log.error('cannot', Object.assign(new Error('why', { cause: new Error('deeper') }), { code: 'EX' }), {
      n: 1,
    });
    log.request({ status: 201, id: 'a' });
    log.requestText('"status":200,"id":"b"');
    log.notify({ outcome: 'delivered', id: 'b' });
    await log.close();
    const time = '2030-01-31T12:00:00.000Z';
    const head = { process: 'dq-server-0', pid: process.pid };
    expect(linesOf(pathOf('notice'))).toEqual([
      { time, level: 'info', ...head, message: 'ready', url: 'http://x' },
    ]);
    expect(linesOf(pathOf('error'))).toEqual([
      {
        time,
        level: 'error',
        ...head,
        ...{ message: 'cannot', reason: 'why: deeper', code: 'EX' },
        ...{ stack: expect.stringContaining('open-log.test'), n: 1 },
      },
    ]);
    expect(linesOf(pathOf('request'))).toEqual([
      { time, process: 'dq-server-0', status: 201, id: 'a' },
      { time, process: 'dq-server-0', status: 200, id: 'b' },
    ]);
    expect(linesOf(pathOf('notify'))).toEqual([
      { time, process: 'dq-server-0', outcome: 'delivered', id: 'b' },
    ]);
  });

  it.each([
    [Object.assign(new Error('connect ECONNREFUSED ::1:1'), { code: 'ECONNREFUSED' }), 'notice'],
    [new Error('Connection is closed.'), 'notice'],
    [new StoreError({ kind: 'not_stored', code: 'store_away' }), 'notice'],
    [new StoreError({ kind: 'unknown', code: 'redis_no_answer' }, { cause: new TypeError('x') }), 'error'],
    [new StoreError({ kind: 'unknown', code: 'redis_script_failed' }), 'error'],
    [new StoreError({ kind: 'not_stored', code: 'bad_call' }), 'error'],
    [
      new StoreError({ kind: 'not_stored', code: 'lost' }, { cause: mysqlError({ code: 'EPIPE' }) }),
      'notice',
    ],
    [mysqlError({ errno: 1054, code: 'ER_BAD_FIELD_ERROR' }), 'error'],
    [mysqlError({ errno: 1969, code: 'ER_STATEMENT_TIMEOUT' }), 'error'],
  ])('a further worker logs %s as %s', async (error, kind) => {
    const log = open({}, { index: 1 });
    log.error('cannot', error);
    await log.close();
    expect(readdirSync(directory)).toEqual([`${kind}-server-1-20300131.log`]);
  });

  it('makes no file for a kind without lines', async () => {
    const log = open();
    log.notice('alone');
    await log.close();
    expect(readdirSync(directory)).toEqual(['notice-server-0-20300131.log']);
  });

  it.each([
    ['error', [], ['bad']],
    ['info', ['said'], ['bad']],
    ['debug', ['said', 'detail'], ['bad']],
  ] as const)('log.level %s', async (level, notices, errors) => {
    const log = open({ 'log.level': level });
    log.notice('said');
    log.debug('detail');
    log.error('bad');
    await log.close();
    expect(linesOf(pathOf('notice')).map(({ message }) => message)).toEqual(notices);
    expect(linesOf(pathOf('error')).map(({ message }) => message)).toEqual(errors);
  });

  it.each([
    ['all', [201, 404, 503, 200], ['delivered', 'failed']],
    ['errors', [404, 503], ['failed']],
    ['off', [], []],
  ] as const)('log.request and log.notify %s', async (wanted, statuses, outcomes) => {
    const log = open({ 'log.request': wanted, 'log.notify': wanted });
    for (const status of [201, 404, 503]) log.request({ status });
    log.requestText('"status":200');
    for (const outcome of ['delivered', 'failed']) log.notify({ outcome });
    await log.close();
    expect(linesOf(pathOf('request')).map(({ status }) => status)).toEqual(statuses);
    expect(linesOf(pathOf('notify')).map(({ outcome }) => outcome)).toEqual(outcomes);
  });

  it('echoes the notices and errors of its level in readable form', async () => {
    const echoed: string[] = [];
    const echo = (line: string) => echoed.push(line);
    open({}, { echo }).notice('ready', { n: 1 });
    open({}, { echo }).error('bad', new Error('why'));
    open({ 'log.level': 'error' }, { echo }).notice('quiet');
    expect(echoed).toEqual([
      '2030-01-31T12:00:00.000Z dq-server-0 ready n=1',
      '2030-01-31T12:00:00.000Z dq-server-0 bad reason=why',
    ]);
  });

  it('survives circular values', async () => {
    const log = open();
    const circular: Line = {};
    circular['self'] = circular;
    log.notice('x', circular);
    log.error('x', null, circular);
    log.request(circular);
    await log.close();
    expect(linesOf(pathOf('request'))).toEqual([expect.objectContaining({ cut: true })]);
  });
});

describe('log files', () => {
  it('get their lines soon, without a close', async () => {
    const log = open();
    log.request({ n: 1 });
    log.notice('hello');
    await hasLines(pathOf('request'), 1);
    await hasLines(pathOf('notice'), 1);
  });

  it('hold all lines of two writers after close, whole and in order', async () => {
    const [one, two] = [open(), open()];
    const pad = 'x'.repeat(300);
    for (let n = 0; n < 5_000; n++) {
      one.request({ who: 1, n, pad });
      two.request({ who: 2, n, pad });
      if (n % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all([one.close(), two.close()]);
    const lines = linesOf(pathOf('request'));
    for (const who of [1, 2])
      expect(lines.filter((line) => line['who'] === who).map(({ n }) => n)).toEqual(
        Array.from({ length: 5_000 }, (_, n) => n),
      );
    expect(one.dropped() + two.dropped()).toBe(0);
  });

  it('lose and count lines after close; close can be repeated', async () => {
    const log = open();
    log.notice('kept');
    await Promise.all([log.close(), log.close()]);
    log.notice('lost');
    log.error('lost');
    log.debug('not wanted');
    log.request({});
    expect(log.dropped()).toBe(3);
    log.reopen();
    await log.close();
    expect(linesOf(pathOf('notice'))).toMatchObject([{ message: 'kept' }]);
  });

  it('are named by the day of the time zone', async () => {
    now = Date.parse('2030-01-31T15:59:59.999Z');
    const log = open({ timezone: 'Asia/Shanghai' });
    log.request({ n: 1 });
    log.notice('before');
    await hasLines(pathOf('request', 20_300_131), 1);
    await hasLines(pathOf('notice', 20_300_131), 1);
    now += 1;
    log.request({ n: 2 });
    log.notice('after');
    await log.close();
    expect(linesOf(pathOf('request', 20_300_201))).toMatchObject([{ n: 2 }]);
    expect(linesOf(pathOf('notice', 20_300_201))).toMatchObject([{ message: 'after' }]);
    expect(linesOf(pathOf('request', 20_300_131))).toHaveLength(1);
  });

  it.each([0, 0o077])('have mode 0640 under umask %o', async (mask) => {
    const umask = process.umask(mask);
    try {
      const log = open();
      log.request({ n: 1 });
      log.notice('x');
      await log.close();
      for (const kind of ['request', 'notice']) expect(statSync(pathOf(kind)).mode & 0o777).toBe(0o640);
      expect(statSync(directory).mode & 0o007).toBe(0);
    } finally {
      process.umask(umask);
    }
  });

  it.each(['renamed', 'removed'])('are opened again by reopen() after they were %s', async (how) => {
    const log = open();
    log.request({ n: 1 });
    await hasLines(pathOf('request'), 1);
    if (how === 'renamed') renameSync(pathOf('request'), join(directory, 'rotated'));
    else unlinkSync(pathOf('request'));
    log.reopen();
    log.request({ n: 2 });
    await hasLines(pathOf('request'), 1);
    expect(linesOf(pathOf('request'))).toMatchObject([{ n: 2 }]);
    if (how === 'renamed') expect(linesOf(join(directory, 'rotated'))).toMatchObject([{ n: 1 }]);
  });

  it('are opened again without reopen(), also in a removed directory', async () => {
    const log = open();
    log.request({ n: 1 });
    await hasLines(pathOf('request'), 1);
    rmSync(directory, { recursive: true });
    await until('lines arrive in a new file', () => {
      log.request({ n: 2 });
      return existsSync(pathOf('request')) && linesOf(pathOf('request')).length > 0;
    });
  });

  it('are closed by reopen(), also without later lines', async () => {
    const log = open();
    log.request({ n: 1 });
    await hasLines(pathOf('request'), 1);
    const held = () =>
      readdirSync('/proc/self/fd').some((fd) => {
        try {
          return (
            readFileSync(`/proc/self/fdinfo/${fd}`).length > 0 &&
            statSync(`/proc/self/fd/${fd}`).ino === inode
          );
        } catch {
          return false;
        }
      });
    const inode = statSync(pathOf('request')).ino;
    expect(held()).toBe(true);
    log.reopen();
    await until('the file is closed', () => !held());
  });
});

describe('failing disk', () => {
  it('loses only lines, and logs their number when it works again', async () => {
    const log = open();
    log.notice('before');
    await hasLines(pathOf('notice'), 1);
    symlinkSync('/dev/full', pathOf('request'));
    for (let n = 0; n < 5; n++) log.request({ n });
    await until('the lines are counted as lost', () => log.dropped() === 5);
    unlinkSync(pathOf('request'));
    log.request({ n: 5 });
    await hasLines(pathOf('request'), 1);
    await hasLines(pathOf('notice'), 2);
    expect(linesOf(pathOf('notice'))[1]).toMatchObject({
      ...{ message: 'log: lines were lost', kind: 'request', lines: 5 },
      reason: expect.stringContaining('ENOSPC'),
    });
    expect(statSync('/dev/full').mode & 0o777).toBe(0o666);
  });

  it('logs the number of lost lines at its end if no line was written since', async () => {
    const log = open();
    log.notice('before');
    await hasLines(pathOf('notice'), 1);
    symlinkSync('/dev/full', pathOf('request'));
    log.request({ n: 0 });
    await until('the line is counted as lost', () => log.dropped() === 1);
    await log.close();
    expect(linesOf(pathOf('notice'))).toMatchObject([
      { message: 'before' },
      { message: 'log: lines were lost', kind: 'request', lines: 1 },
    ]);
  });

  it('a half-written line damages no later one', async () => {
    // A soft limit of 1 KiB per file cuts the second of three lines. Node ignores SIGXFSZ, so write() fails
    // with EFBIG.
    const script = resolve(import.meta.dirname, '../support/log-writer.ts');
    const child = spawn(
      'bash',
      ['-c', 'ulimit -S -f 1; exec "$@"', 'bash', process.execPath, '--import', 'tsx', script, directory],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    );
    try {
      let output = '';
      child.stdout.on('data', (chunk) => {
        output += String(chunk);
      });
      child.stdin.write('1,2,3\n');
      await until('two lines are counted as lost', () => output === '2 lost\n');
      expect(statSync(pathOf('request')).size).toBe(1024);
      execFileSync('prlimit', ['--fsize=unlimited', '--pid', String(child.pid)]);
      child.stdin.end('4,5\n');
      await until('the writer ended', () => output.includes('at the end'));
      const lines = readFileSync(pathOf('request'), 'utf8').trimEnd().split('\n');
      expect(lines.map((line) => /"n":(\d)/.exec(line)?.[1])).toEqual(['1', '2', '4', '5']);
      expect(() => JSON.parse(lines[1] ?? '')).toThrow();
      for (const n of [0, 2, 3]) expect(JSON.parse(lines[n] ?? '')).toMatchObject({ process: 'dq-server-0' });
      expect(output).toBe('2 lost\n2 lost at the end\n');
      expect(linesOf(pathOf('notice'))).toMatchObject([
        { lines: 2, reason: expect.stringContaining('EFBIG') },
      ]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('a line of which only the line feed is missing is not lost', async () => {
    const script = resolve(import.meta.dirname, '../support/log-writer.ts');
    const child = spawn(process.execPath, ['--import', 'tsx', script, directory], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += String(chunk);
    });
    child.stdin.write('1\n');
    await hasLines(pathOf('request'), 1);
    const limit = 2 * statSync(pathOf('request')).size - 1;
    execFileSync('prlimit', [`--fsize=${limit}:unlimited`, '--pid', String(child.pid)]);
    child.stdin.write('2,3\n');
    await until('the third line is counted as lost', () => output === '1 lost\n');
    expect(statSync(pathOf('request')).size).toBe(limit);
    execFileSync('prlimit', ['--fsize=unlimited', '--pid', String(child.pid)]);
    child.stdin.end('4\n');
    await until('the writer ended', () => output.includes('at the end'));
    expect(linesOf(pathOf('request')).map(({ n }) => n)).toEqual([1, 2, 4]);
    expect(output).toBe('1 lost\n1 lost at the end\n');
  });

  it('stdout: two processes with one pipe, which is often full, mix no lines and lose none', async () => {
    const script = resolve(import.meta.dirname, '../support/log-writer.ts');
    const count = 2_000;
    const numbers = Array.from({ length: count }, (_, n) => n).join(',');
    const shell = 'for n in 1 2; do "$@" - <<<"$NUMBERS" & done; wait';
    const child = spawn('bash', ['-c', shell, 'bash', process.execPath, '--import', 'tsx', script], {
      env: { ...process.env, NUMBERS: numbers },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(stderr).toBe('0 lost at the end\n'.repeat(2));
    const lines = stdout.trimEnd().split('\n');
    const found = lines.map((line) => JSON.parse(line) as Line);
    expect(found.map(({ n }) => Number(n)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 2 * count }, (_, n) => Math.floor(n / 2)),
    );
    expect(new Set(found.map(({ kind }) => kind))).toEqual(new Set(['request']));
  });

  it('an incomplete line of a killed process damages no line of the next process', async () => {
    mkdirSync(directory);
    writeFileSync(pathOf('request'), '{"n":0}\n{"n":');
    open().request({ n: 1 });
    const lines = () => readFileSync(pathOf('request'), 'utf8').split('\n');
    await until('the line is written', () => lines().length === 4);
    expect(lines().slice(0, 2)).toEqual(['{"n":0}', '{"n":']);
    expect(JSON.parse(lines()[2] ?? '')).toMatchObject({ n: 1 });
  });

  it('counts lost notices too', async () => {
    const log = open();
    rmSync(parent, { recursive: true });
    writeFileSync(parent, 'a file where the directory should be');
    log.notice('lost');
    await until('the line is counted as lost', () => log.dropped() === 1);
    rmSync(parent);
    log.notice('kept');
    await hasLines(pathOf('notice'), 2);
    expect(linesOf(pathOf('notice')).map(({ message, lines }) => [message, lines])).toEqual([
      ['kept', undefined],
      ['log: lines were lost', 1],
    ]);
  });

  it('hanging disk: never blocks, waiting lines are bounded, close drops them', async () => {
    open().notice('makes the directory');
    await hasLines(pathOf('notice'), 1);
    execFileSync('mkfifo', [pathOf('request')]);
    const log = openWithDefaults();
    const pad = 'x'.repeat(1_000);
    const lines = Math.ceil((2 * telemetryLimits.logBacklogCharsMax) / pad.length);
    for (let n = 0; n < lines; n++) log.request({ n, pad });
    expect(log.dropped()).toBeGreaterThan(lines / 3);
    expect(log.dropped()).toBeLessThan(lines);
    // Before the disk goes on.
    await log.close();
    const before = log.dropped();
    log.request({ n: -1 });
    expect(log.dropped()).toBe(before + 1);
    // Ends the thread that hangs in open(): a reader opens the file, reads nothing, and closes.
    closeSync(openSync(pathOf('request'), constants.O_RDWR | constants.O_NONBLOCK));
  });
});

describe('the daily limit of a file', () => {
  const bytesMax = 10_000;
  const sizeOf = (path: string) => (existsSync(path) ? statSync(path).size : 0);
  const flood = (log: OpenLog, n: number) => {
    for (let i = 0; i < n; i++) log.request({ n: i, pad: '€'.repeat(30) });
  };
  const fullLine = (kind: string) => ({ kind, option: 'log.bytesMaxPerDay', bytesMax });

  it('holds per kind, is logged once; the next day logs the lost lines', async () => {
    const log = open({ 'log.bytesMaxPerDay': bytesMax });
    flood(log, 500);
    await hasLines(pathOf('error'), 1);
    flood(log, 500);
    log.error('cannot', undefined, { n: 1 });
    log.notice('ready');
    log.notify({ outcome: 'delivered' });
    await hasLines(pathOf('error'), 2);
    await hasLines(pathOf('notice'), 1);
    await hasLines(pathOf('notify'), 1);
    // Each file has its own writer: the lines of others can be in their files before.
    await until('the file is full', () => sizeOf(pathOf('request')) > bytesMax - 200);
    expect(sizeOf(pathOf('request'))).toBeLessThanOrEqual(bytesMax);
    const written = linesOf(pathOf('request'));
    expect(written.map(({ n }) => n)).toEqual(written.map((_, n) => n));
    expect(linesOf(pathOf('error'))[0]).toMatchObject(fullLine('request'));
    expect(log.dropped()).toBe(1_000 - written.length);
    now += 86_400_000;
    log.request({ n: 1 });
    await hasLines(pathOf('request', 20_300_201), 1);
    await hasLines(pathOf('notice', 20_300_201), 1);
    expect(linesOf(pathOf('notice', 20_300_201))[0]).toMatchObject({
      kind: 'request',
      lines: 1_000 - written.length,
      reason: 'log.bytesMaxPerDay was reached',
    });
  });

  it('counts earlier lines of the file, also from before a rotation', async () => {
    const first = open({ 'log.bytesMaxPerDay': bytesMax });
    flood(first, 40);
    await first.close();
    const before = sizeOf(pathOf('request'));
    const second = open({ 'log.bytesMaxPerDay': bytesMax });
    flood(second, 20);
    await hasLines(pathOf('request'), 60);
    renameSync(pathOf('request'), `${pathOf('request')}.1`);
    second.reopen();
    flood(second, 500);
    await hasLines(pathOf('error'), 1);
    const together = () => sizeOf(pathOf('request')) + sizeOf(`${pathOf('request')}.1`);
    expect(before).toBeGreaterThan(0);
    await until('the day is full', () => together() > bytesMax - 200);
    expect(together()).toBeLessThanOrEqual(bytesMax);
  });

  it('of the error log is in the notice log; both stop no other log', async () => {
    const log = open({ 'log.bytesMaxPerDay': bytesMax });
    for (let i = 0; i < 200; i++) log.error('cannot', undefined, { i });
    await until('it is logged', () => linesOf(pathOf('notice')).length === 1);
    expect(linesOf(pathOf('notice'))[0]).toMatchObject(fullLine('error'));
    for (let i = 0; i < 200; i++) log.notice('ready', { i });
    log.request({ n: 1 });
    await hasLines(pathOf('request'), 1);
    await log.close();
    expect(sizeOf(pathOf('error'))).toBeLessThanOrEqual(bytesMax);
    expect(sizeOf(pathOf('notice'))).toBeLessThanOrEqual(bytesMax);
  });

  it('0 means no limit', async () => {
    const log = open({ 'log.bytesMaxPerDay': 0 });
    flood(log, 1_000);
    await hasLines(pathOf('request'), 1_000);
    expect(log.dropped()).toBe(0);
  });
});

describe('removeOldLogs', () => {
  it('removes only logs of days that ended long enough ago in every zone', async () => {
    const log = open();
    log.notice('makes the directory');
    await log.close();
    const names = words`
      request-server-0-20300110.log notify-notifier-12-20300116.log error-upkeep-0-20300117.log
      notice-master-0-20300118.log request-server-0-20290101.log.gz other-server-0-20290101.log
      request-server-0-20290101.txt notes.txt
    `;
    for (const name of names) writeFileSync(join(directory, name), 'x');
    const removed = await removeOldLogs(directory, 14, Date.parse('2030-02-01T11:59:00Z'));
    expect([...removed].sort()).toEqual(['notify-notifier-12-20300116.log', 'request-server-0-20300110.log']);
    expect(readdirSync(directory).sort()).toEqual([...names.slice(2), 'notice-server-0-20300131.log'].sort());
    expect(await removeOldLogs(directory, 14, Date.parse('2030-02-01T12:00:01Z'))).toEqual([
      'error-upkeep-0-20300117.log',
    ]);
  });

  it('truncates the output file, also for open writers, and keeps a copy', async () => {
    const log = open();
    log.notice('makes the directory');
    await log.close();
    const [path, older] = [join(directory, outputName), join(directory, `${outputName}.1`)];
    await trimOutput(directory, 14, Date.now());
    expect(existsSync(path)).toBe(false);
    const fd = openSync(path, 'a');
    onTestFinished(() => closeSync(fd));
    writeSync(fd, 'a trace\n');
    await trimOutput(directory, 14, Date.now());
    expect([readFileSync(path, 'utf8'), existsSync(older)]).toEqual(['a trace\n', false]);

    writeSync(fd, Buffer.alloc(telemetryLimits.outputBytesMax, 'x'));
    await trimOutput(directory, 14, Date.now());
    writeSync(fd, 'the next\n');
    expect(readFileSync(path, 'utf8')).toBe('the next\n');
    expect(readFileSync(older, 'utf8')).toHaveLength('a trace\n'.length + telemetryLimits.outputBytesMax);

    const fifteenDays = 15 * 86_400_000;
    await trimOutput(directory, 14, Date.now() + fifteenDays);
    expect([readFileSync(path, 'utf8'), existsSync(older)]).toEqual(['', false]);
  });

  it('rejects when there is no directory', async () => {
    await expect(removeOldLogs(join(parent, 'absent'), 14, now)).rejects.toThrow(/ENOENT/);
  });
});
