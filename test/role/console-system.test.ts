// Tests what the console shows of the daemon: the store, the configuration and reloads.
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { describeState } from '../../src/master/reload.ts';
import { ReloadHistory } from '../../src/master/reload-queue.ts';
import type { ReloadState } from '../../src/process/messages.ts';
import { halvesIn, sessionAt, startConsole } from '../support/console.ts';
import { startIntake } from '../support/intake.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { answerAsMaster } from '../support/master-answers.ts';
import { until } from '../support/until.ts';

function loaded(env: Record<string, string>) {
  const read = loadConfig({
    flags: { 'server.port': '6790' },
    env: { DQ_SMTP__FROM: 'dq@example.org', ...env },
    cwd: '/',
    file: undefined,
  });
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  return { ...read, warnings: [] };
}

describe('GET /v1/config', () => {
  const inForce = loaded({ DQ_SMTP__URL: 'smtp://a:geheim@mail:25', DQ_NOTIFIER__SLOTS: '70' });
  const rowOf = (state: ReturnType<typeof describeState>, name: string) =>
    state.items.find((item) => item.name === name);

  it('has the origin, the default and the masked value of every option', async () => {
    const state = describeState(inForce, inForce);
    expect(JSON.stringify(state)).not.toContain('geheim');
    expect(rowOf(state, 'smtp.url')).toMatchObject({
      value: '********',
      origin: 'DQ_SMTP__URL',
      source: 'environment',
      defaultValue: 'none',
      needsRestart: true,
    });
    expect(rowOf(state, 'server.port')).toMatchObject({
      value: '6790',
      source: 'flag',
      defaultValue: '6789',
    });
    expect(rowOf(state, 'server.host')).toMatchObject({ source: 'default', needsRestart: false, next: null });
    expect(rowOf(state, 'dataDir')).toMatchObject({ needsRestart: true });
    const dq = await startIntake({
      onSend: (message, answer) => {
        if (message.kind === 'config') answer({ kind: 'config', call: message.call, config: state });
      },
    });
    expect((await dq.api('GET', '/v1/config')).body).toEqual(state);
  });

  it('shows what a reload would change, and why it would be rejected', () => {
    const next = loaded({ DQ_SMTP__URL: 'smtp://a:anders@mail:25', DQ_NOTIFIER__SLOTS: '80' });
    const state = describeState(inForce, next);
    expect(JSON.stringify(state)).not.toContain('anders');
    const changed = state.items.filter((item) => item.next !== null);
    expect(changed.map((item) => [item.name, item.next])).toEqual([
      ['notifier.slots', '80'],
      ['smtp.url', '********'],
    ]);
    const rejected = describeState(inForce, { ok: false, reason: 'dq.yaml:3:1  unknown option "x"' });
    expect(rejected).toMatchObject({ problem: 'dq.yaml:3:1  unknown option "x"' });
    expect(rejected.items.some((item) => item.next !== null)).toBe(false);
  });
});

describe('/v1/reload', () => {
  it('begins a reload only by POST, and answers 503 when the master is silent', async () => {
    const time = useJumpingTime();
    const begun: boolean[] = [];
    let isSilent = false;
    const reload: ReloadState = {
      running: { startedAt: 0, lines: ['starting one new process of every role'] },
      waiting: false,
      last: { startedAt: 0, endedAt: 5, outcome: 'rejected', reason: 'no', lines: [], generation: 1 },
      generation: 1,
      restart: null,
    };
    const dq = await startIntake({
      onSend: (message, answer) => {
        if (message.kind !== 'reload' || isSilent) return;
        begun.push(message.begins);
        answer({ kind: 'reload', call: message.call, reload });
      },
    });
    const answer = {
      ...reload,
      running: { ...reload.running, startedAt: '1970-01-01T00:00:00.000Z' },
      last: {
        ...reload.last,
        startedAt: '1970-01-01T00:00:00.000Z',
        endedAt: '1970-01-01T00:00:00.005Z',
      },
    };
    expect(await dq.api('GET', '/v1/reload')).toMatchObject({ status: 200, body: answer });
    expect(await dq.api('POST', '/v1/reload')).toMatchObject({ status: 202, body: answer });
    expect(begun).toEqual([false, true]);
    isSilent = true;
    expect(await time.outlast(dq.api('GET', '/v1/reload'))).toMatchObject({
      status: 503,
      body: { code: 'unavailable' },
    });
  });

  it('the master remembers the running and the last reload, in bounded lines', () => {
    const history = new ReloadHistory();
    expect(history.state()).toEqual({ running: null, last: null });
    history.begin(10);
    for (let n = 0; n < 100; n += 1) history.line(`line ${n}`);
    expect(history.state().running).toMatchObject({ startedAt: 10 });
    expect(history.state().running?.lines).toHaveLength(50);
    history.end({ kind: 'reloaded', flaws: ['dq-server-1 is not ready yet'] }, 2, 30);
    expect(history.state()).toMatchObject({
      running: null,
      last: { startedAt: 10, endedAt: 30, outcome: 'partly', generation: 2 },
    });
    history.begin(40);
    history.end({ kind: 'refused', reason: 'dataDir was changed' }, 2, 50);
    expect(history.state().last).toMatchObject({ outcome: 'rejected', reason: 'dataDir was changed' });
  });
});

describe('GET /v1/store', () => {
  it('of the embedded store: durability, file, disk, and the p99 of its commits', async () => {
    const dq = await startIntake();
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' });
    expect((await dq.api('GET', '/v1/store')).body).toMatchObject({
      kind: 'embedded',
      ok: true,
      durability: expect.stringContaining('power cut'),
      warnings: [],
      quarantined: 0,
      registry: 'embedded',
      list: null,
      shards: [],
    });
  });

  it('is read once for all callers', async () => {
    const dq = await startIntake();
    const [a, b] = await Promise.all([dq.api('GET', '/v1/store'), dq.api('GET', '/v1/store')]);
    expect(a.body).toEqual(b.body);
    await until('the clock has moved', () => new Date().toISOString() > a.body.at);
    expect((await dq.api('GET', '/v1/store')).body.at).toBe(a.body.at);
  });
});

describe('/v1/doctor', () => {
  it('runs the checks once for all callers, and keeps the findings', async () => {
    const console = await startConsole({ onSend: answerAsMaster });
    const headers = halvesIn(await sessionAt(console.port));
    const read = async () => (await console.send('GET', '/v1/doctor', headers)).json;
    expect(await read()).toEqual({ state: 'none', startedAt: null, endedAt: null, findings: [] });
    const [a, b] = await Promise.all([
      console.send('POST', '/v1/doctor', headers),
      console.send('POST', '/v1/doctor', headers),
    ]);
    expect([a.status, b.status, a.json.state]).toEqual([202, 202, 'running']);
    expect(b.json.startedAt).toBe(a.json.startedAt);
    await until('it has ended', async () => (await read()).state === 'done');
    const { findings, endedAt } = await read();
    expect(endedAt).toMatch(/Z$/);
    const names = findings.map(({ check }: { check: string }) => check);
    for (const name of ['node', 'sqlite', 'open files', 'configuration', 'clock', 'disk sync', 'daemon'])
      expect(names).toContain(name);
    expect(names.filter((name: string) => name === 'disk sync')).toHaveLength(1);
  });

  it('is not served by the port of the API', async () => {
    const dq = await startIntake();
    expect((await dq.call('GET', '/v1/doctor')).status).toBe(404);
  });
});
