// The contract of src/clients/README.md: each client against a real daemon, behind a proxy that breaks
// connections, and against a server that follows a script.
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { childrenOf } from '../../scripts/services/live-processes.ts';
import { isAlive, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { listening } from '../support/listening.ts';
import { startLossyProxy } from '../support/lossy-proxy.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { until } from '../support/until.ts';
import { type Command, languages, startClient } from './client-process.ts';

const dq = await sharedDaemon();
const { url } = dq;

let made = 0;
async function pullTopic(settings: object = {}, daemon = dq): Promise<string> {
  const topic = `clients.${++made}`;
  const body = { topic, delivery: 'pull', lease: '1h', backoff: ['1h'], ...settings };
  expect((await daemon.api('POST', '/v1/topics', body)).status).toBe(201);
  return topic;
}
const job = async (topic: string, id: string, daemon = dq) =>
  (await daemon.api('GET', `/v1/topics/${topic}/jobs/${encodeURIComponent(id)}`)).body;
const json = (body: object | string) => Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));

interface Step {
  /** 0: the connection breaks */
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** Answers with these steps, and with the last one from then on. */
async function scriptedServer(steps: readonly Step[]) {
  const calls: { readonly line: string; readonly at: number }[] = [];
  const server = createServer((request, response) => {
    const { status, headers = {}, body = '{}' } = steps[calls.length] ?? (steps.at(-1) as Step);
    calls.push({ line: `${request.method} ${request.url}`, at: performance.now() });
    if (status === 0) return void request.socket.destroy();
    response.writeHead(status, headers).end(body);
  });
  return { url: `http://127.0.0.1:${await listening(server)}`, calls };
}

/** A push, and what the daemon stores. */
const pushes: readonly {
  readonly title: string;
  readonly push: Pick<Command & { do: 'push' }, 'body' | 'base64' | 'options'>;
  readonly stored: object;
}[] = [
  {
    title: 'a list is JSON',
    push: { body: ['订单', 1.5, '/'] },
    stored: { contentType: 'application/json', body: '["订单",1.5,"/"]' },
  },
  {
    title: 'text is sent as it is, with its content type',
    push: { body: '{ "n": 1.0 }', options: { id: 'a/b ü', contentType: 'application/json' } },
    stored: { id: 'a/b ü', contentType: 'application/json', body: '{ "n": 1.0 }' },
  },
  {
    title: 'bytes are sent as they are, without a content type',
    push: { base64: '/wD+', options: { delay: '1h' } },
    stored: { state: 'delayed', contentType: null, bodyBase64: '/wD+' },
  },
  {
    title: 'an empty body',
    push: { body: '', options: { at: '2030-01-01T00:00:00Z' } },
    stored: { contentType: null, body: '', dueAt: '2030-01-01T00:00:00.000Z' },
  },
  {
    title: 'settings of the job',
    push: {
      body: { delay: '1h', body: 1 },
      options: {
        ...{ literal: true, maxAttempts: 3, backoff: '1m,5m', lease: '2m', deadline: '2030-01-01T00:00:00Z' },
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
        tracestate: 'vendor=value',
      },
    },
    stored: {
      ...{
        body: '{"delay":"1h","body":1}',
        maxAttempts: 3,
        lease: '2m',
        deadline: '2030-01-01T00:00:00.000Z',
      },
      ...{
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
        tracestate: 'vendor=value',
      },
    },
  },
];

const done: Step = { status: 201, body: '{"id":"1"}' };
const busy: Step = { status: 503, body: '{"status":503,"code":"not_stored","detail":"full"}' };

/** What a push does with these answers. */
const scripts: readonly {
  readonly title: string;
  readonly steps: readonly Step[];
  readonly answer: object;
  readonly calls: number;
}[] = [
  {
    title: 'repeats after every 503, after errors of a gateway, and after broken connections and answers',
    steps: [
      busy,
      { status: 503, body: 'no server is available' },
      { status: 502, body: '<html>' },
      { status: 0 },
      { status: 201, body: '{"id"' },
      done,
    ],
    answer: { result: { id: '1' } },
    calls: 6,
  },
  {
    title: 'does not repeat a rejected push',
    steps: [{ status: 404, body: '{"status":404,"code":"topic_not_found","detail":"no such topic"}' }, done],
    answer: { code: 'topic_not_found', status: 404 },
    calls: 1,
  },
  {
    title: 'does not repeat what a proxy rejects',
    steps: [{ status: 413, body: '<html>' }, done],
    answer: { code: 'status_413', status: 413 },
    calls: 1,
  },
];

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const other = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
const sign = (body: Buffer, seconds: number, by = secret) =>
  `v1,${createHmac('sha256', Buffer.from(by.slice(6), 'base64'))
    .update(`msg_1.${seconds}.`)
    .update(body)
    .digest('base64')}`;
function signed(
  body: Buffer | string,
  { age = 0, signature }: { age?: number; signature?: (right: string) => string } = {},
) {
  const bytes = Buffer.from(body);
  const time = Math.floor(Date.now() / 1_000) - age;
  const right = sign(bytes, time);
  const headers = {
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(time),
    'webhook-signature': signature?.(right) ?? right,
    ...{ 'dq-topic': 't', 'dq-job-id': 'a%2Fb', 'dq-attempt': '2' },
  };
  return { headers, base64: bytes.toString('base64'), secret };
}
const wrong = (right: string) => `v1,${'A'.repeat(43)}=${right.slice(0, 0)}`;
/** A function each: the signed time is that of the check. */
const signatures: readonly {
  readonly title: string;
  readonly isValid: boolean;
  readonly sent: () => ReturnType<typeof signed>;
}[] = [
  { title: 'JSON', isValid: true, sent: () => signed('{"order":1}') },
  { title: 'no body', isValid: true, sent: () => signed('') },
  { title: 'UTF-8', isValid: true, sent: () => signed('关闭 ü') },
  { title: 'bytes', isValid: true, sent: () => signed(Buffer.from([255, 0, 254])) },
  {
    title: 'the second of two signatures',
    isValid: true,
    sent: () => signed('1', { signature: (right) => `${wrong(right)} ${right}` }),
  },
  {
    title: 'the first of two signatures',
    isValid: true,
    sent: () => signed('1', { signature: (right) => `${right} ${wrong(right)}` }),
  },
  { title: '4 minutes old', isValid: true, sent: () => signed('1', { age: 240 }) },
  { title: '6 minutes old', isValid: false, sent: () => signed('1', { age: 360 }) },
  { title: '6 minutes ahead', isValid: false, sent: () => signed('1', { age: -360 }) },
  { title: 'another secret', isValid: false, sent: () => ({ ...signed('1'), secret: other }) },
  { title: 'another body', isValid: false, sent: () => ({ ...signed('1'), base64: 'Mg==' }) },
  {
    title: 'another version',
    isValid: false,
    sent: () => signed('1', { signature: (right) => right.replace('v1,', 'v2,') }),
  },
  {
    title: 'a part of the signature',
    isValid: false,
    sent: () => signed('1', { signature: (right) => right.slice(0, -4) }),
  },
  {
    title: 'a signature that is not base64',
    isValid: false,
    sent: () => signed('1', { signature: () => 'v1,%' }),
  },
  { title: 'no signature', isValid: false, sent: () => signed('1', { signature: () => '' }) },
  { title: 'no headers', isValid: false, sent: () => ({ ...signed('1'), headers: {} as never }) },
];

/** null: it cannot run here. */
const clients = await Promise.all(
  languages.map(async (language) => {
    const why = await language.missing();
    return { name: language.name, why, client: why === null ? startClient(language) : null };
  }),
);

describe.for(clients)('the client of $name', ({ name, client, why }) => {
  if (client === null) return it.skip(`${why}`);
  const { ask, pid } = client;

  it('stores what it pushes', async () => {
    const topic = await pullTopic();
    for (const { title, push, stored } of pushes) {
      const { result } = await ask({ url, do: 'push', topic, ...push });
      expect(result, title).toMatchObject({ topic, duplicate: false });
      expect(await job(topic, result.id), title).toMatchObject(stored);
    }
  });

  it('makes ids that grow with time, keeps a stored job, and replaces it on request', async () => {
    const topic = await pullTopic();
    const pushed = async (options = {}) => (await ask({ url, do: 'push', topic, body: 1, options })).result;
    const before = Date.now();
    const { id } = await pushed();
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const at = Number.parseInt(id.replace('-', '').slice(0, 12), 16);
    expect(at).toBeGreaterThanOrEqual(before);
    expect(at).toBeLessThanOrEqual(Date.now());
    expect((await pushed()).id).not.toBe(id);
    expect(await pushed({ id })).toMatchObject({ id, duplicate: true, replaced: false });
    expect(await pushed({ id, mode: 'replace' })).toMatchObject({ id, duplicate: false, replaced: true });
    expect(await ask({ url, do: 'push', topic, body: 1, options: { id, mode: 'reject' } })).toEqual({
      ...{ code: 'job_exists', status: 409 },
    });
    expect((await ask({ url, do: 'cancel', topic, id })).result).toEqual({
      cancelled: true,
      inFlight: false,
    });
    expect((await ask({ url, do: 'cancel', topic, id })).result).toEqual({
      cancelled: false,
      inFlight: false,
    });
  });

  it('sends its token', async () => {
    const topic = await pullTopic();
    expect(await ask({ url, token: 'dqk_wrong', do: 'push', topic, body: 1 })).toEqual({
      ...{ code: 'unauthorized', status: 401 },
    });
  });

  it.for(scripts)('$title', async ({ steps, answer, calls }) => {
    const server = await scriptedServer(steps);
    expect(await ask({ url: server.url, do: 'push', topic: 't', body: 1, options: { delay: '1s' } })).toEqual(
      answer,
    );
    expect(server.calls).toHaveLength(calls);
    // The same id each time
    expect(new Set(server.calls.map(({ line }) => line)).size).toBe(1);
  });

  it('waits as long as Retry-After says', async () => {
    const server = await scriptedServer([{ ...busy, headers: { 'retry-after': '1' } }, done]);
    await ask({ url: server.url, do: 'push', topic: 't', body: 1 });
    const [first, second] = server.calls;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(990);
  });

  it('gives up when its patience ends', async () => {
    const server = await scriptedServer([busy]);
    const push = { do: 'push', topic: 't', body: 1, patience: 300 } as const;
    expect(await ask({ url: server.url, ...push })).toEqual({ code: 'not_stored', status: 503 });
    expect(server.calls.length).toBeGreaterThan(1);
    const dead = await scriptedServer([{ status: 0 }]);
    expect(await ask({ url: dead.url, ...push })).toEqual({ code: 'unreachable', status: 0 });
    const later = await scriptedServer([{ ...busy, headers: { 'retry-after': '3600' } }]);
    expect(await ask({ url: later.url, ...push })).toEqual({ code: 'not_stored', status: 503 });
    expect(later.calls).toHaveLength(1);
  });

  it('1,000 pushes through a lossy network: none is lost, none is doubled', async () => {
    const topic = await pullTopic();
    const proxy = await startLossyProxy(Number(new URL(url).port), 25);
    const lossy = `http://127.0.0.1:${proxy.port}`;
    const { result } = await ask({
      url: lossy,
      do: 'pushMany',
      topic,
      count: 1_000,
      options: { delay: '1h' },
    });
    expect(proxy.broken()).toBeGreaterThanOrEqual(40);
    expect(new Set(result).size).toBe(1_000);
    const { topics } = (await dq.api('GET', '/v1/stats')).body;
    const line = topics.find((one: { topic: string }) => one.topic === topic);
    expect(line.states).toEqual({ delayed: 1_000, ready: 0, reserved: 0, dead: 0 });
    const stored = new Set<string>();
    for (let cursor = ''; ; ) {
      const page = await dq.api('GET', `/v1/jobs?topic=${topic}&limit=1000${cursor}`);
      for (const { id } of page.body.items) stored.add(id);
      if (page.body.nextCursor === null) break;
      cursor = `&cursor=${page.body.nextCursor}`;
    }
    expect(stored).toEqual(new Set(result));
  });

  it('verifies signatures', async () => {
    for (const { title, isValid, sent } of signatures) {
      const job = { webhookId: 'msg_1', topic: 't', id: 'a/b', attempt: 2 };
      const expected = isValid ? { result: job } : { code: 'bad_signature', status: 0 };
      expect(await ask({ url, do: 'verify', ...sent() }), title).toEqual(expected);
    }
  });

  it('pull: acks, nacks, buries and releases jobs, and ends at SIGTERM', async () => {
    const topic = await pullTopic();
    const orders = {
      done: {},
      failed: { fail: '失败'.repeat(200) },
      later: { nack: { delay: '2h' } },
      dead: { nack: { dead: true } },
    };
    for (const [id, order] of Object.entries(orders)) await dq.push(topic, json(order), { id });
    await dq.push(topic, Buffer.from([255, 0]), { id: 'bytes' }, 'application/octet-stream');
    const pulling = ask({ url, do: 'pull', topic, concurrency: 12 });
    const states = async () => {
      const all = await Promise.all([...Object.keys(orders), 'bytes'].map((id) => job(topic, id)));
      return all.map(({ state, attempt }) => `${state} ${attempt}`);
    };
    await until(
      'all are answered',
      async () => !(await states()).some((state) => /ready|reserved/.test(state)),
    );
    expect(await states()).toEqual(['done 1', 'delayed 1', 'delayed 1', 'dead 1', 'done 1']);
    expect((await job(topic, 'failed')).attempts).toMatchObject([{ detail: '失败'.repeat(100) }]);
    expect((await job(topic, 'dead')).attempts).toMatchObject([{ detail: 'cannot' }]);
    const inAnHour = Date.now() + 3_700_000;
    expect(Date.parse((await job(topic, 'later')).dueAt)).toBeGreaterThan(inAnHour);
    expect(client.events.find(({ id }) => id === 'bytes')?.body).toBe('/wA=');
    expect(client.events.filter(({ event }) => event === 'error')).toMatchObject([{ id: 'failed' }]);
    process.kill(pid, 'SIGTERM');
    expect(await pulling).toEqual({ result: null });
    await dq.push(topic, '1', { id: 'after' });
    expect(client.stderr()).toBe('');
    // dq may give it to the call that has ended, and releases it.
    await until('it is ready', async () => (await job(topic, 'after')).state === 'ready');
    expect((await job(topic, 'after')).attempt).toBe(0);
  });

  it('pull: the result of a job goes to the job that follows', async () => {
    const onDone = await pullTopic();
    const topic = await pullTopic({ onDone });
    const result = { rows: [1, null], name: '报表' };
    for (const [id, order] of Object.entries({ with: { result }, without: {} }))
      await dq.push(topic, json(order), { id });
    const pulling = ask({ url, do: 'pull', topic });
    await until('both are done', async () => {
      const all = await Promise.all(['with', 'without'].map((id) => job(topic, id)));
      return all.every(({ state }) => state === 'done');
    });
    process.kill(pid, 'SIGTERM');
    await pulling;
    const { items } = (await dq.api('POST', `/v1/topics/${onDone}/pull?max=9&wait=60s`)).body;
    const bodies = items.map(({ body }: { body: string }) => JSON.parse(body));
    expect(bodies.map(({ id, reply }: { id: string; reply: unknown }) => [id, reply]).sort()).toEqual([
      ['with', JSON.stringify(result)],
      ['without', null],
    ]);
  });

  it('pull: a result or a reason that is invalid JSON fails one attempt, not the loop', async () => {
    const topic = await pullTopic();
    for (const odd of ['result', 'reason']) await dq.push(topic, json({ odd }), { id: odd });
    await dq.push(topic, json({}), { id: 'after' });
    const pulling = ask({ url, do: 'pull', topic });
    await until('the loop goes on', async () => (await job(topic, 'after')).state === 'done');
    const [result, reason] = await Promise.all(['result', 'reason'].map((id) => job(topic, id)));
    expect([result, reason]).toMatchObject([{ state: 'delayed' }, { state: 'delayed' }]);
    expect(result.attempts).toMatchObject([{ detail: expect.stringMatching(/BigInt|Inf and NaN/) }]);
    expect(reason.attempts).toMatchObject([{ detail: expect.stringMatching(/^. odd$/) }]);
    process.kill(pid, 'SIGTERM');
    expect(await pulling).toEqual({ result: null });
  });

  it('pull: a result that dq rejects as too large fails its attempt at once', async () => {
    const topic = await pullTopic();
    await dq.push(topic, json({ result: 'x'.repeat(65_536) }), { id: 'large' });
    const pulling = ask({ url, do: 'pull', topic });
    await until('it is answered', async () => /delayed|done/.test((await job(topic, 'large')).state));
    const { state, attempts } = await job(topic, 'large');
    expect(state).toBe('delayed');
    expect(attempts).toMatchObject([{ detail: expect.stringMatching(/result: must be at most \d+ bytes/) }]);
    process.kill(pid, 'SIGTERM');
    expect(await pulling).toEqual({ result: null });
  });

  it('pull: fails when dq rejects it', async () => {
    expect(await ask({ url, do: 'pull', topic: 'clients.unknown' })).toMatchObject({
      code: 'topic_not_found',
    });
  });

  it('pull: extends the lease at half of its time, through a lossy network', async () => {
    const topic = await pullTopic({ lease: '6s' });
    const gate = join(testDirectory(), 'gate');
    await dq.push(topic, json({ waitFor: gate }), { id: 'long' });
    const proxy = await startLossyProxy(Number(new URL(url).port), 2);
    const pulling = ask({ url: `http://127.0.0.1:${proxy.port}`, do: 'pull', topic });
    const extensions = () => proxy.requests.filter((line) => line.endsWith('/extend')).length;
    await until('the lease is extended', () => extensions() >= 2);
    writeFileSync(gate, '');
    await until('it is acked', async () => (await job(topic, 'long')).state === 'done');
    process.kill(pid, 'SIGTERM');
    expect(await pulling).toEqual({ result: null });
    expect(client.events.filter(({ event }) => event === 'job')).toMatchObject([{ id: 'long', attempt: 1 }]);
  });

  const item = (id: string, body: string) => ({
    ...{
      topic: 't',
      id,
      version: '1',
      webhookId: `msg_${id}`,
      lease: `lease ${id}`,
      attempt: 1,
      maxAttempts: 2,
    },
    ...{ dueAt: new Date().toISOString(), createdAt: new Date().toISOString() },
    leaseUntil: new Date(Date.now() + 60_000).toISOString(),
    ...{ contentType: 'application/json', body, memberOfALaterVersion: {} },
  });
  /** Answers pulls so, and notes the answers to leases. */
  async function pullServer(onPull: (response: ServerResponse) => unknown) {
    const answers: string[] = [];
    const server = createServer(async (request, response) => {
      const body = Buffer.concat(await request.toArray()).toString();
      if (request.url === '/v1/pull') return void (await onPull(response));
      answers.push(`${request.url} ${body}`);
      response.end('{"results":[{"status":200}]}');
    });
    return { url: `http://127.0.0.1:${await listening(server)}`, answers };
  }

  it('pull: the end of the loop ends the connection that waits', async () => {
    let children: readonly number[] = [];
    let ended: Promise<unknown> | null = null;
    const firstAnswers = [JSON.stringify({ items: [item('1', '{}')] })];
    const { url } = await pullServer((response) => {
      const answer = firstAnswers.pop();
      if (answer !== undefined) return response.end(answer);
      ended = once(response.req.socket, 'close');
      // PHP extends leases in a process of its own: here it runs on when the loop has ended.
      children = childrenOf(pid).map((child) => child.pid);
      for (const child of children) process.kill(child, 'SIGSTOP');
      return process.kill(pid, 'SIGTERM');
    });
    expect(await ask({ url, do: 'pull', topic: 't' })).toEqual({ result: null });
    try {
      expect(ended).not.toBe(null);
      await ended;
    } finally {
      for (const child of children) if (isAlive(child)) process.kill(child, 'SIGCONT');
    }
  });

  it('pull: SIGTERM releases a job that did not start', async () => {
    const items = [item('1', '{"signal":true}'), item('2', '{}')];
    const { url, answers } = await pullServer((response) => response.end(JSON.stringify({ items })));
    expect(await ask({ url, do: 'pull', topic: 't' })).toEqual({ result: null });
    expect(client.events.filter(({ event }) => event === 'job')).toMatchObject([{ id: '1' }]);
    expect(answers).toEqual([
      '/v1/leases/ack {"leases":["lease 1"]}',
      '/v1/leases/nack {"leases":["lease 2"],"release":true}',
    ]);
  });

  it('pull: at SIGTERM an answer that has begun is read to its end', async () => {
    const { url, answers } = await pullServer(async (response) => {
      // More than the sockets hold: the client has its beginning.
      await new Promise((resolve) => response.write(`{"items":${' '.repeat(24 << 20)}`, resolve));
      process.kill(pid, 'SIGTERM');
      // Node handles signals in turn with sockets, PHP before them.
      if (name === 'TypeScript')
        await until('it has the signal', () => client.events.some(({ event }) => event === 'signal'));
      response.end(`${JSON.stringify([item('1', '{}')])}}`);
    });
    expect(await ask({ url, do: 'pull', topic: 't' })).toEqual({ result: null });
    expect(client.events.filter(({ event }) => event === 'job')).toEqual([]);
    expect(answers).toEqual(['/v1/leases/nack {"leases":["lease 1"],"release":true}']);
  });
});

it('pull: goes on after the daemon was killed, and answers the job that it had', async () => {
  const present = clients.flatMap(({ client }) => client ?? []);
  const first = await startDaemon();
  const pulls = await Promise.all(
    present.map(async (client) => {
      const topic = await pullTopic({}, first);
      const gate = join(testDirectory(), 'gate');
      await first.push(topic, json({ waitFor: gate }), { id: 'before' });
      const pulling = client.ask({ url: first.url, do: 'pull', topic });
      await until('it has the job', () => client.events.length === 1);
      return { topic, gate, client, pulling };
    }),
  );
  const workers = first.workers();
  first.child.kill('SIGKILL');
  await until('the daemon has ended', () => !workers.some(({ pid }) => isAlive(pid)));
  for (const { gate } of pulls) writeFileSync(gate, '');
  const port = Number(new URL(first.url).port);
  const next = await startDaemon({ directory: first.directory, port });
  for (const { topic, client, pulling } of pulls) {
    await next.push(topic, '{}', { id: 'after' });
    for (const id of ['before', 'after'])
      await until(`${id} is done`, async () => (await job(topic, id, next)).state === 'done');
    const started = client.events.filter(({ event }) => event === 'job');
    expect(started).toMatchObject([
      { id: 'before', attempt: 1 },
      { id: 'after', attempt: 1 },
    ]);
    process.kill(client.pid, 'SIGTERM');
    expect(await pulling).toEqual({ result: null });
  }
});
