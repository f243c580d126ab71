// dq pull, ack, nack and extend against a real daemon.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { environment, launcher } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { listening } from '../support/listening.ts';
import { runDq } from '../support/run-dq.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { until } from '../support/until.ts';

const dq = await sharedDaemon();
const at = ['--data-dir', dq.dataDir];

beforeAll(async () => {
  const leases = { report: '1h', work: '1h', missing: '1h', slow: '6s' }; // at half of it, a command extends
  for (const [topic, lease] of Object.entries(leases)) {
    const settings = { topic, delivery: 'pull', lease, backoff: ['1h'] };
    expect((await dq.api('POST', '/v1/topics', settings)).status).toBe(201);
  }
});

const pull = async (...args: string[]) => {
  const run = await runDq(['pull', 'report', ...args, ...at]);
  expect(run.stderr).toBe('');
  return run.stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, string>);
};
const job = async (topic: string, id: string) =>
  (await dq.api('GET', `/v1/topics/${topic}/jobs/${encodeURIComponent(id)}`)).body;
const state = async (topic: string, id: string) => (await job(topic, id)).state;

/** `dq pull TOPIC --exec`, ended with the test. */
function startPuller(topic: string, command: string, ...args: string[]) {
  const where = args.includes('--url') ? [] : at;
  const child = spawn(process.execPath, [launcher, 'pull', topic, '--exec', command, ...args, ...where], {
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const texts = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (texts.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (texts.stderr += text));
  return { child, texts, exited };
}

/** Forwards to the daemon, and notes the paths of answered calls. `breaks`: whether this call gets no answer
 *  and does not reach the daemon. */
async function startProxy(breaks: (path: string) => boolean): Promise<{ url: string; answered: string[] }> {
  const answered: string[] = [];
  const server = createServer(async (request, response) => {
    const path = request.url ?? '';
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (breaks(path)) return void request.socket.destroy();
    const body = Buffer.concat(chunks);
    const type = request.headers['content-type'];
    const reply = await fetch(`${dq.url}${path}`, {
      method: request.method ?? 'GET',
      ...(body.length === 0 ? {} : { body, headers: { 'content-type': type ?? '' } }),
    }).catch(() => null); // the daemon of an earlier test has ended
    if (reply === null) return void request.socket.destroy();
    answered.push(path);
    response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? '' });
    response.end(Buffer.from(await reply.arrayBuffer()));
  });
  const port = await listening(server);
  return { url: `http://127.0.0.1:${port}`, answered };
}

describe('dq pull', () => {
  it('pull: prints a job per line, and ack, nack and extend answer their leases', async () => {
    for (const id of ['a', 'b', 'c']) await dq.push('report', '{"n": 1.0}', { id });
    const items = await pull('--max', '3', '--lease', '1h', '--wait', '10s');
    expect(items).toHaveLength(3);
    expect(items[0]).toMatchObject({ topic: 'report', attempt: 1, body: '{"n": 1.0}' });
    const leases = items.map(({ lease }) => lease ?? '');
    const ids = items.map(({ id }) => id ?? '');

    const extended = await runDq(['extend', leases[0] ?? '', '--for', '2h', ...at]);
    expect(Date.parse(extended.stdout.trim())).toBeGreaterThan(
      Date.parse(items[0]?.['leaseUntil'] ?? '') + 3_500_000,
    );
    expect(await runDq(['ack', leases[0] ?? '', ...at])).toMatchObject({ code: 0, stdout: '', stderr: '' });
    expect(await runDq(['nack', leases[1] ?? '', '--reason', 'locked', ...at])).toMatchObject({ code: 0 });
    expect(await runDq(['nack', leases[2] ?? '', '--dead', ...at])).toMatchObject({ code: 0 });
    expect(await state('report', ids[0] ?? '')).toBe('done');
    expect(await job('report', ids[1] ?? '')).toMatchObject({
      state: 'delayed',
      attempts: [{ reason: 'nacked', detail: 'locked' }],
    });
    expect((await runDq(['get', 'report', ids[1] ?? '', ...at])).stdout).toMatch(/ nacked .* locked$/m);
    expect(await state('report', ids[2] ?? '')).toBe('dead');

    const again = await runDq(['ack', leases[0] ?? '', ...at]);
    expect(again).toMatchObject({ code: 1 });
    expect(again.stderr).toContain('lease_lost');
  });

  it('pull: prints nothing when no job is due', async () => {
    expect(await pull()).toEqual([]);
  });

  it('pull: names wrong options and topics', async () => {
    const wrong: readonly (readonly [readonly string[], number, string])[] = [
      [['pull', 'report', '--max', '101'], 1, '--max'],
      [['pull', 'report', '--concurrency', '2'], 2, '--exec'],
      [['pull', 'report', '--exec', 'true', '--max', '2'], 2, '--max'],
      // An unset variable must not ack every job.
      [['pull', 'report', '--exec', ' '], 2, '--exec'],
      [['pull', 'absent', '--exec', 'true'], 4, 'absent'],
      [['nack', 'abc'], 1, 'lease'],
    ];
    for (const [args, code, text] of wrong) {
      const run = await runDq([...args, ...at]);
      expect(run.code, args.join(' ')).toBe(code);
      expect(run.stderr).toContain(text);
    }
  });
});

describe('dq pull --exec', () => {
  it('exec: the exit code decides, and the job is in input and environment', async () => {
    const command = 'echo "$DQ_TOPIC $DQ_ID $DQ_ATTEMPT $(cat)"; eval "$DQ_ID"';
    const codes = ['exit 0', 'exit 65', 'exit 7', 'kill -KILL $$'];
    for (const id of codes) await dq.push('work', `body of ${id}`, { id }, 'text/plain');
    const { child, texts, exited } = startPuller('work', command, '-c', '2');
    const failures = ['exit 65: exit 65', 'exit 7: exit 7', 'kill -KILL $$: ended by SIGKILL'];
    await until('the failures are printed', () =>
      failures.every((failure) => texts.stderr.includes(`dq: work ${failure}, attempt 1\n`)),
    );
    await until('every command has run', () =>
      codes.every((id) => texts.stdout.includes(`work ${id} 1 body of ${id}\n`)),
    );
    await until('the first is done', async () => (await state('work', 'exit 0')) === 'done');
    await until('the second is dead', async () => (await state('work', 'exit 65')) === 'dead');
    for (const [id, detail] of [
      ['exit 7', 'exit 7'],
      ['kill -KILL $$', 'ended by SIGKILL'],
    ] as const) {
      const failed = await until(`${id} has failed`, async () => {
        const found = await job('work', id);
        return found.state === 'delayed' && found;
      });
      expect(failed.attempts).toMatchObject([{ reason: 'nacked', detail }]);
    }
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
  });

  it('exec: a command that cannot run ends the puller, and costs no attempt', async () => {
    const file = join(testDirectory(), 'plain');
    writeFileSync(file, '', { mode: 0o600 });
    for (const id of ['a', 'b', 'c']) await dq.push('missing', '1', { id });
    for (const [command, reason] of [
      ['no-such-command-of-dq', 'exit 127'],
      [file, 'exit 126'],
    ] as const) {
      const { texts, exited } = startPuller('missing', command, '-c', '2');
      expect(await exited).toEqual([1, null]);
      expect(texts.stderr).toContain(`dq: the command cannot run (${reason}), so dq pull stops`);
      for (const id of ['a', 'b', 'c'])
        expect(await job('missing', id)).toMatchObject({ state: 'ready', attempts: [] });
    }
  });

  it('exec: extends the lease; a signal lets the command end; a lost ack is repeated', async () => {
    const end = join(testDirectory(), 'end');
    let lost = 0;
    const proxy = await startProxy((path) => path === '/v1/leases/ack' && lost++ === 0);
    await dq.push('slow', '1', { id: 'long' });
    const { child, texts, exited } = startPuller(
      'slow',
      `echo started; while [ ! -e ${end} ]; do sleep 0.05; done`,
      '--url',
      proxy.url,
    );
    await until('the command runs', () => texts.stdout.includes('started'));
    const extensions = () => proxy.answered.filter((path) => path === '/v1/leases/extend').length;
    await until('the lease was extended twice', () => extensions() >= 2);
    child.kill('SIGINT');
    await dq.push('slow', '2', { id: 'next' });
    await until('a lease was extended after the signal', () => extensions() >= 3);
    expect(child.exitCode).toBeNull();
    writeFileSync(end, '');
    expect(await exited).toEqual([0, null]);
    expect(lost).toBe(2);
    expect(texts.stderr).toContain('trying again');
    expect(texts.stderr).toContain('the daemon answers again');
    expect(await job('slow', 'long')).toMatchObject({ state: 'done', attempts: [{ attempt: 1 }] });
    expect(await state('slow', 'next')).toBe('ready');
  });
});
