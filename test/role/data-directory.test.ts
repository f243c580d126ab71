// Tests the lock of the data directory, its instance number, its run records, and leftover processes.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { DataDirectory, makeSocketDir, takeDirectoryLock } from '../../src/master/data/data-directory.ts';
import { readMasterRecord, readRunRecord, writeMasterRecord } from '../../src/master/data/run-record.ts';
import { masterLimits } from '../../src/master/limits.ts';
import { identityOf } from '../../src/master/workers/process-table.ts';
import { WorkerRecord } from '../../src/master/workers/worker-record.ts';
import { StartRejected } from '../../src/runtime/service.ts';
import { isAlive } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';

let root: string;
beforeEach(() => {
  root = testDirectory();
});

const remedy = (path: string) =>
  `end it with dq stop --data-dir ${path}, or start with another --data-dir and --port`;

const refusal = async (path: string): Promise<string> => {
  const error = await DataDirectory.open(path).then(
    (data) => {
      data.close();
      return null;
    },
    (reason: unknown) => reason,
  );
  if (!(error instanceof StartRejected)) throw new Error(`not rejected: ${String(error)}`);
  return error.message;
};

/** What a start on the path knows of its instance. */
async function knownOf(path: string, isShared = true) {
  const data = await DataDirectory.open(path, isShared);
  const { instance, identityChanged } = data;
  const incarnation = data.nextIncarnation();
  data.close();
  return { instance, identityChanged, incarnation };
}

describe('data directory', () => {
  it('rejects a path that is a file or cannot be created, in one sentence', async () => {
    expect(await refusal('/proc/dq-test/data')).toMatch(
      /^the data directory \/proc\/dq-test\/data cannot be used: cannot make a directory in \/proc: ENOENT/,
    );
    writeFileSync(join(root, 'file'), '');
    expect(await refusal(join(root, 'file'))).toMatch(/ cannot be used: it is not a directory$/);
    const sentence = await refusal(join(root, 'file', 'data'));
    expect(sentence).toMatch(/^the data directory .*\/file\/data cannot be used: ENOTDIR/);
    expect(sentence).not.toContain('\n');
    (await DataDirectory.open(join(root, 'a', 'b', 'c'))).close();
    expect(statSync(join(root, 'a', 'b', 'c', 'run')).mode & 0o777).toBe(0o700);
  });

  it('has one holder, whose pid and start time a second start names', async () => {
    const data = await DataDirectory.open(join(root, 'data'));
    const since = new Date(data.startedAt).toISOString();
    expect(await refusal(join(root, 'data'))).toBe(
      `already running on ${join(root, 'data')} (pid ${process.pid}, since ${since}); ${remedy(join(root, 'data'))}`,
    );
    data.announce({
      url: 'http://127.0.0.1:6789',
      file: null,
      console: null,
      compat: {},
      adminToken: 'dqk_x',
    });
    expect(await refusal(join(root, 'data'))).toContain(`since ${since}, http://127.0.0.1:6789); end it`);
    data.close();
    (await DataDirectory.open(join(root, 'data'))).close();
  });

  it('names the holder as soon as its record is there, and no dead master', async () => {
    const run = join(root, 'run');
    mkdirSync(run);
    const lock = takeDirectoryLock(run);
    onTestFinished(() => lock?.release());
    writeMasterRecord(root, { pid: 999_999_999, startedAt: 1, controlSocket: 'x' });
    expect(await refusal(root)).toBe(
      `the data directory ${root} is locked by a dq that starts, or by a dq command; wait until it has ended, then try again`,
    );
    const rejected = refusal(root);
    // A pause of the machine, which stops the holder too.
    const { lockTriesMax, lockWaitMs } = masterLimits;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lockTriesMax * lockWaitMs + 100);
    writeMasterRecord(root, { pid: process.pid, startedAt: 1, controlSocket: 'x' });
    expect(await rejected).toBe(
      `already running on ${root} (pid ${process.pid}, since 1970-01-01T00:00:00.001Z); ${remedy(root)}`,
    );
  });

  it('waits for the lock of a holder without a record, such as a command', async () => {
    mkdirSync(join(root, 'run'));
    const lock = takeDirectoryLock(join(root, 'run'));
    const opened = DataDirectory.open(root);
    lock?.release();
    (await opened).close();
  });

  it('is locked although another start holds weaker locks for a moment', async () => {
    // Prolongs the locks of BEGIN EXCLUSIVE: without a wait, two concurrent starts rejected each other once
    // in sixty.
    const script = `import { openDatabase } from ${JSON.stringify(join(import.meta.dirname, '../../src/runtime/database.ts'))};
      const db = openDatabase(${JSON.stringify(join(root, 'lock.db'))});
      process.on('message', () => {
        const from = performance.now();
        db.exec('BEGIN IMMEDIATE');
        process.send('on its way');
        setTimeout(() => {
          db.exec('ROLLBACK');
          process.send(performance.now() - from);
        }, 50);
      });`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const closed = once(child, 'close');
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await closed;
    });
    let lock: ReturnType<typeof takeDirectoryLock> = null;
    onTestFinished(() => lock?.release());
    // Usually one turn. On a busy machine the child may hold its locks longer than the wait: such a turn does
    // not count.
    for (let heldMs: number = masterLimits.lockWaitMs; lock === null && heldMs >= masterLimits.lockWaitMs; ) {
      child.send('go on your way');
      await once(child, 'message');
      lock = takeDirectoryLock(root);
      [heldMs] = (await once(child, 'message')) as [number];
    }
    expect(lock).not.toBeNull();
  });

  it('reports records that cannot be written and writes them later', async () => {
    const data = await DataDirectory.open(root);
    onTestFinished(() => data.close());
    const recorded: unknown[] = [];
    data.onUnwritten = (error) => void recorded.push(error);
    // A full disk for these two files.
    const blocked = [join(root, 'instance.json.next'), join(root, 'run', 'workers.json.next')];
    for (const path of blocked) mkdirSync(path);
    const given = data.nextIncarnation();
    data.forked(process.pid, 'dq-test-0');
    expect(recorded).toMatchObject([{ code: 'EISDIR' }, { code: 'EISDIR' }]);
    data.exited(process.pid);
    expect(recorded).toHaveLength(3);
    for (const path of blocked) rmSync(path, { recursive: true });
    data.forked(process.pid, 'dq-test-0');
    expect(data.nextIncarnation()).toBeGreaterThan(given);
    expect(recorded).toHaveLength(3);
    expect(readFileSync(join(root, 'run', 'workers.json'), 'utf8')).toContain('dq-test-0');
    data.exited(process.pid);
  });

  it('keeps its instance and never reuses an incarnation, even if the clock is set back', async () => {
    const first = await DataDirectory.open(root);
    const { instance } = first;
    const given = [first.nextIncarnation(), first.nextIncarnation()];
    first.close();
    writeFileSync(join(root, 'instance.json'), JSON.stringify({ instance, incarnation: 2 ** 50 }));
    const second = await DataDirectory.open(root);
    given.push(second.nextIncarnation(), second.nextIncarnation());
    second.close();
    expect(second.instance).toBe(instance);
    expect(given[1]).toBeGreaterThan(given[0] as number);
    expect(given.slice(2)).toEqual([2 ** 50 + 1, 2 ** 50 + 2]);
  });

  it('instance: a copy is another one in a shared store only', async () => {
    const [original, copy] = [join(root, 'a'), join(root, 'b')];
    const { instance, incarnation } = await knownOf(original, false);
    cpSync(original, copy, { recursive: true });
    expect(await knownOf(copy, false)).toMatchObject({ instance });
    const other = await knownOf(copy);
    expect(other.instance).not.toBe(instance);
    expect(other.incarnation).toBeGreaterThan(incarnation);
    expect(await knownOf(copy)).toMatchObject({ instance: other.instance });
    expect(await knownOf(original)).toMatchObject({ instance });
  });

  it('instance: a copy that takes the path of the original is another one', async () => {
    const [original, aside] = [join(root, 'a'), join(root, 'aside')];
    const { instance } = await knownOf(original);
    renameSync(original, aside);
    cpSync(aside, original, { recursive: true });
    expect(await knownOf(original, false)).toMatchObject({ instance });
    const other = await knownOf(original);
    expect(other.instance).not.toBe(instance);
    expect(await knownOf(original)).toMatchObject({ instance: other.instance });
    rmSync(original, { recursive: true });
    renameSync(aside, original);
    expect(await knownOf(original)).toMatchObject({ instance });
  });

  it('instance: a start with a new identity names the cause and the former instance', async () => {
    const [original, copy, aside] = [join(root, 'a'), join(root, 'b'), join(root, 'aside')];
    const { instance, identityChanged } = await knownOf(original);
    expect(identityChanged).toBeNull();
    expect(await knownOf(original)).toMatchObject({ identityChanged: null });
    cpSync(original, copy, { recursive: true });
    const copied = 'the data directory was copied or moved to another file system';
    const renamed = 'the path of the data directory, the host name or the machine id changed';
    const end = `leases of instance ${instance} expire`;
    const both = `new instance identity: ${copied}, and ${renamed}; ${end}`;
    expect(await knownOf(copy)).toMatchObject({ identityChanged: both });
    expect(await knownOf(copy)).toMatchObject({ identityChanged: null });
    renameSync(original, aside);
    cpSync(aside, original, { recursive: true });
    const only = (cause: string) => ({ identityChanged: `new instance identity: ${cause}; ${end}` });
    expect(await knownOf(original)).toMatchObject(only(copied));
    expect(await knownOf(aside)).toMatchObject(only(renamed));
  });

  it('records: a copy of the directory has none; a moved directory keeps its own', async () => {
    const [original, copy, moved] = [join(root, 'a'), join(root, 'b'), join(root, 'c')];
    const data = await DataDirectory.open(original);
    onTestFinished(() => data.close());
    data.announce({
      url: 'http://127.0.0.1:1',
      file: null,
      console: null,
      compat: {},
      adminToken: 'dqk_secret',
    });
    execFileSync('cp', ['-a', original, copy]);
    expect([readRunRecord(copy), readMasterRecord(copy)]).toEqual([null, null]);
    renameSync(original, moved);
    expect(readRunRecord(moved)?.adminToken).toBe('dqk_secret');
    expect(readMasterRecord(moved)?.pid).toBe(process.pid);
    renameSync(moved, original);
  });

  it('records: only the owner can read them; close() removes them', async () => {
    const data = await DataDirectory.open(root);
    data.announce({
      url: 'http://127.0.0.1:1',
      file: null,
      console: null,
      compat: {},
      adminToken: 'dqk_secret',
    });
    expect(readRunRecord(root)).toMatchObject({
      pid: process.pid,
      url: 'http://127.0.0.1:1',
      adminToken: 'dqk_secret',
    });
    expect(readMasterRecord(root)?.controlSocket).toBe(join(root, 'run/control.sock'));
    expect(statSync(join(root, 'run')).mode & 0o777).toBe(0o700);
    expect(statSync(join(root, 'run/dq.json')).mode & 0o777).toBe(0o600);
    data.close();
    expect([readRunRecord(root), readMasterRecord(root)]).toEqual([null, null]);
  });

  it('records: empty ones after a power cut are replaced', async () => {
    mkdirSync(join(root, 'run'));
    for (const name of ['instance.json', 'run/master.json', 'run/dq.json', 'run/workers.json'])
      writeFileSync(join(root, name), '');
    expect([readRunRecord(root), readMasterRecord(root)]).toEqual([null, null]);
    (await DataDirectory.open(root)).close();
  });

  it('leftovers: a copied record ends no process', async () => {
    const child = spawn('sleep', ['600'], { stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [original, copy] = [join(root, 'a'), join(root, 'b')];
    mkdirSync(join(original, 'run'), { recursive: true });
    new WorkerRecord(join(original, 'run')).addWorker(child.pid as number, 'dq-store');
    execFileSync('cp', ['-a', original, copy]);
    const data = await DataDirectory.open(copy);
    data.close();
    expect(data.leftovers).toEqual([]);
    expect(isAlive(child.pid as number)).toBe(true);
  });

  it('leftovers: a record ends no child of a living dq-master', async () => {
    // The title fits only into a command line of the same length.
    const script = `process.title = 'dq-master';
      const child = require('node:child_process').spawn('sleep', ['600'], { stdio: 'ignore' });
      process.stdin.on('end', () => { child.kill('SIGKILL'); process.exit(0); }).resume();
      console.log(child.pid);`;
    const master = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] });
    onTestFinished(async () => {
      master.stdin.end();
      await once(master, 'exit');
    });
    const [line] = (await once(master.stdout, 'data')) as [Buffer];
    const worker = Number(String(line));
    mkdirSync(join(root, 'run'));
    new WorkerRecord(join(root, 'run')).addWorker(worker, 'dq-store');
    const data = await DataDirectory.open(root);
    data.close();
    expect(data.leftovers).toEqual([]);
    expect(isAlive(worker)).toBe(true);
  });

  it('leftovers: ends a stopped worker, and only if its start time matches', async () => {
    const sleeper = (): number => {
      const child = spawn('sleep', ['600'], { stdio: 'ignore' });
      onTestFinished(async () => {
        const gone = child.exitCode !== null || child.signalCode !== null ? null : once(child, 'exit');
        child.kill('SIGKILL');
        await gone;
      });
      return child.pid as number;
    };
    const [leftover, stranger] = [sleeper(), sleeper()];
    process.kill(leftover, 'SIGSTOP');
    mkdirSync(join(root, 'run'), { recursive: true });
    new WorkerRecord(join(root, 'run')).addWorker(leftover, 'dq-store');
    const path = join(root, 'run/workers.json');
    const [entry] = JSON.parse(readFileSync(path, 'utf8')) as [object];
    const imposter = { ...entry, ...identityOf(stranger), startTicks: 1, title: 'dq-timer-0' };
    writeFileSync(path, JSON.stringify([entry, imposter]));

    const data = await DataDirectory.open(root);
    data.close();
    expect(data.leftovers).toEqual(['dq-store']);
    expect([isAlive(leftover), isAlive(stranger)]).toEqual([false, true]);
  });
});

describe('socket directory', () => {
  it('is run/ if the path is short enough, else a private one that stays the same', () => {
    expect(makeSocketDir(join(root, 'run'))).toBe(join(root, 'run'));
    const long = join(root, 'x'.repeat(100), 'run');
    const short = makeSocketDir(long);
    onTestFinished(() => rmSync(short, { recursive: true, force: true }));
    expect(Buffer.byteLength(join(short, 'control.sock'))).toBeLessThanOrEqual(100);
    expect(statSync(short).mode & 0o777).toBe(0o700);
    expect(makeSocketDir(long)).toBe(short);
  });

  it('rejects a directory of another user', () => {
    const long = join(root, 'y'.repeat(100), 'run');
    const short = makeSocketDir(long);
    onTestFinished(() => rmSync(short, { recursive: true, force: true }));
    rmSync(short, { recursive: true });
    symlinkSync(root, short);
    expect(() => makeSocketDir(long)).toThrow('not a directory of this user alone');
    expect(existsSync(join(root, 'control.sock'))).toBe(false);
  });
});
