// Tests the port for clients of php-delayqueue: real sockets, raw frames, the embedded store.
import { describe, expect, it } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { compatLimits } from '../../src/compat/limits.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { bury, failedAttempt, reserveOne } from '../support/handmade.ts';
import { type IntakeOptions, startIntake, withJobs } from '../support/intake.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { refuses } from '../support/listening.ts';
import { fail, frame, type PhpClient, phpClient, succ } from '../support/php-client.ts';
import { until } from '../support/until.ts';

/** A commit on a busy disk may take longer than a client waits: only tests of that limit have it. */
async function start(
  { config = {}, compatTimes = compatLimits, ...options }: IntakeOptions = {},
  answerMs = 30_000,
) {
  const [port = 0] = await freePorts(1);
  const dq = await startIntake({
    ...{ ...options, compatTimes: { ...compatTimes, answerMs } },
    config: { 'compat.php.port': port, ...config },
  });
  const more = { callbackUrl: 'http://127.0.0.1:9/', delay: '10m' };
  await dq.api('POST', '/v1/topics', { topic: 't', format: 'form', method: 'GET', ...more });
  await dq.api('POST', '/v1/topics', { topic: 'raw', ...more });
  const client = () => phpClient(port);
  const counts = () =>
    Object.fromEntries(
      (dq.metrics()?.counts ?? [])
        .filter(([name]) => name === 'dq_compat_requests_total')
        .map(([, labels, n]) => [labels.join(' '), n]),
    );
  return { ...dq, phpPort: port, client, counts };
}

describe('requests and replies', () => {
  it('add: stores a job, replaces a live one and a dead one', async () => {
    const dq = await start();
    const php = dq.client();
    expect(await php.ask('{"id":"a","body":{"n":1.50, "u":"会"},"cmd":"add","topic":"t"}')).toBe(succ);
    const job = await dq.store.jobs.get({ topic: 't', id: 'a' });
    expect(job).toMatchObject({ state: 'delayed', contentType: 'application/json' });
    expect(String(job?.body)).toBe('{"n":1.50, "u":"会"}');
    expect(Math.abs((job?.dueAt ?? 0) - (job?.acceptedAt ?? 0) - 600_000)).toBeLessThan(1_000);
    expect(await php.ask({ cmd: 'add', topic: 't', id: 'a', body: {} })).toBe(succ);
    expect((await dq.store.jobs.get({ topic: 't', id: 'a' }))?.version).toBeGreaterThan(job?.version ?? 0);
    await bury(dq, 't', ['d']);
    expect(await php.ask('{"cmd":"g\\u0065t","topic":"t","id":"d"}')).toBe(fail);
    expect(await php.ask({ cmd: 'add', topic: 't', id: 'd', body: [] })).toBe(succ);
    expect((await dq.store.jobs.get({ topic: 't', id: 'd' }))?.state).toBe('delayed');
    expect(dq.requests.filter(({ via }) => via === 'php')).toMatchObject([
      { method: 'POST', topic: 't', id: 'a', status: 201, code: null, bytes: 21 },
      { method: 'POST', topic: 't', id: 'a', status: 200, code: null },
      { method: 'POST', topic: 't', id: 'd', status: 201, code: null },
    ]);
    expect(dq.counts()).toEqual({ 'php add ok': 3, 'php get fail': 1 });
  });

  it('add: id as text or whole number, fix_time, null as absent', async () => {
    const dq = await start({ config: { timezone: 'Asia/Shanghai' } });
    const php = dq.client();
    const at = async (id: string) => {
      const job = await dq.store.jobs.get({ topic: 't', id });
      return job === null ? null : new Date(job.dueAt).toISOString();
    };
    expect(await php.ask('{"cmd":"add","topic":"t","id":12345678901234567890,"fix_time":null}')).toBe(succ);
    expect(await at('12345678901234567890')).not.toBeNull();
    const fixed = { cmd: 'add', topic: 't', id: 'f', fix_time: '2030-01-31 09:00:00' };
    expect(await php.ask(fixed)).toBe(succ);
    expect(await at('f')).toBe('2030-01-31T01:00:00.000Z');
    expect(await php.ask({ ...fixed, id: 'past', fix_time: '@5' })).toBe(succ);
    expect((await dq.store.jobs.get({ topic: 't', id: 'past' }))?.state).not.toBe('delayed');
  });

  it('add: rejects with fail, and logs the reason', async () => {
    const dq = await start();
    await dq.api('POST', '/v1/topics/raw/offline');
    const php = dq.client();
    const add = { cmd: 'add', topic: 't', id: 'a', body: {} };
    const rejected: [object | string, string, string][] = [
      [{ ...add, topic: 'nope' }, 'topic_not_found', 'there is no topic "nope"'],
      [{ ...add, topic: '会员' }, 'topic_not_found', 'there is no topic'],
      [{ ...add, topic: 7 }, 'topic_not_found', 'there is no topic'],
      [{ ...add, topic: 'raw' }, 'topic_offline', 'is offline'],
      [{ ...add, id: undefined }, 'invalid', 'id: must be text or a whole number'],
      ['{"cmd":"add","topic":"t","id":1.0,"body":{}}', 'invalid', 'id: must be text or a whole number'],
      [{ ...add, id: '' }, 'invalid', 'id: must not be empty'],
      [{ ...add, id: 'x'.repeat(257) }, 'invalid', 'id: must be at most 256 bytes'],
      [{ ...add, body: 5 }, 'invalid', 'body: must be an object, a list or text'],
      [{ ...add, body: true }, 'invalid', 'body: must be an object, a list or text'],
      [{ ...add, fix_time: 'tomorrow' }, 'invalid', 'fix_time: must be a time such as'],
      [{ ...add, fix_time: 1893456000 }, 'invalid', 'fix_time: must be a time such as'],
      [{ ...add, fix_time: '' }, 'invalid', 'fix_time: must be a time such as'],
      [{ ...add, fix_time: '2130-01-31' }, 'invalid', 'at: must be at most 3650d from now'],
    ];
    for (const [request] of rejected) expect(await php.ask(request), JSON.stringify(request)).toBe(fail);
    expect(dq.requests).toMatchObject(
      rejected.map(([, code, reason]) => ({ via: 'php', code, reason: expect.stringContaining(reason) })),
    );
    expect(await dq.store.jobs.get({ topic: 't', id: 'a' })).toBeNull();
    expect(dq.counts()).toEqual({ 'php add fail': rejected.length });
  });

  it('del: removes a job in any state; an unknown or ended job is fail', async () => {
    const dq = await start();
    const php = dq.client();
    const del = (id: unknown, topic = 't') => php.ask({ cmd: 'del', topic, id });
    await php.ask({ cmd: 'add', topic: 't', id: 7, body: {} });
    await bury(dq, 't', ['dead']);
    await dq.push('t', '{}', '?id=reserved&delay=0');
    await reserveOne(dq);
    for (const id of [7, 'dead', 'reserved']) {
      expect(await del(id)).toBe(succ);
      expect(await del(id)).toBe(fail);
    }
    for (const reply of [del('x', 'nope'), del('x', '会'), del(undefined), del(null), del('\u0000')])
      expect(await reply).toBe(fail);
    expect(dq.counted.get('t cancelled')).toBe(3);
    expect(dq.requests.filter(({ method, via }) => method === 'DELETE' && via === 'php')).toHaveLength(11);
  });

  it('get: data as PHP writes it, with the fields of dq in the place of equal names', async () => {
    const dq = await start({ config: { timezone: 'Asia/Shanghai' }, clock: () => 1_893_456_000_000 });
    const php = dq.client();
    const get = (id: string, topic = 't') => php.ask({ cmd: 'get', topic, id });
    const body = '{"a/b": [1.50, {"x":[]}], "notify_time":"mine", "u":"会", "n":12345678901234567890}';
    await php.ask(`{"cmd":"add","topic":"t","id":"a","body":${body}}`);
    const data =
      '{"a\\/b":[1.50,{"x":[]}],"notify_time":"2030-01-01 08:10:00","u":"\\u4f1a","n":12345678901234567890,"dq_set_time":"2030-01-01 08:00:00"}';
    expect(await get('a')).toBe(frame(`{"code":1,"msg":"succ","data":${data}}`));
    await dq.push('t', '{}', '?id=r&delay=0');
    const job = await reserveOne(dq);
    const times = '"notify_time":"2030-01-01 08:00:00","dq_set_time":"2030-01-01 08:00:00"';
    expect(await get('r')).toBe(frame(`{"code":1,"msg":"succ","data":{${times}}}`));
    await dq.store.jobs.retry([{ ...job, delayMs: 0, attempt: failedAttempt }]);
    expect(await get('r')).toBe(frame(`{"code":1,"msg":"succ","data":{${times},"exp_notify_nums":1}}`));
    await php.ask({ cmd: 'add', topic: 'raw', id: 'text', body: 'a "会"/' });
    expect(await get('text', 'raw')).toBe(frame('{"code":1,"msg":"succ","data":"a \\"\\u4f1a\\"\\/"}'));
    for (const request of [
      { cmd: 'get', topic: 't', id: 'unknown' },
      { cmd: 'get', topic: 'nope', id: 'a' },
      { cmd: 'get', topic: 't' },
      { cmd: 'get', id: 'a' },
    ])
      expect(await php.ask(request)).toBe(fail);
  });

  it('get: UTF-8 where the escapes are too long for a frame; then fail and an error', async () => {
    const dq = await start();
    const php = dq.client();
    const text = '会'.repeat(3_000);
    await php.ask(`{"cmd":"add","topic":"t","id":"utf8","body":{"u":"${text}"}}`);
    expect(await php.ask({ cmd: 'get', topic: 't', id: 'utf8' })).toMatch(
      new RegExp(`^9\\d{3}{"code":1,"msg":"succ","data":{"u":"${text}","notify_time":"`),
    );
    await php.ask(`{"cmd":"add","topic":"t","id":"ascii","body":{"u":"${'会'.repeat(1_500)}"}}`);
    expect(await php.ask({ cmd: 'get', topic: 't', id: 'ascii' })).toContain('"u":"\\u4f1a\\u4f1a');
    for (const [id, length] of [
      ['long', 9_900],
      ['longer', 100_000],
    ] as const) {
      await dq.push('t', `{"a":"${'x'.repeat(length)}"}`, `?id=${id}`);
      expect(await php.ask({ cmd: 'get', topic: 't', id })).toBe(fail);
    }
    expect(dq.errors).toHaveLength(2);
    expect(dq.errors[0]).toMatch(/^php: cannot send a job: its reply is over 9999 bytes/);
  });

  it('another cmd, or none: fail', async () => {
    const dq = await start();
    const php = dq.client();
    for (const request of [{ cmd: 'pop', topic: 't' }, {}, { cmd: 1 }, { CMD: 'add' }])
      expect(await php.ask(request)).toBe(fail);
    expect(dq.counts()).toEqual({ 'php other fail': 4 });
  });
});

describe('frames', () => {
  const add = (id: string) => frame({ cmd: 'add', topic: 't', id, body: { id } });
  const get = (id: string) => frame({ cmd: 'get', topic: 't', id });
  const del = (id: string) => frame({ cmd: 'del', topic: 't', id });

  it('frames: in pieces, several at once, and an end of the client behind the last one', async () => {
    const dq = await start();
    const php = dq.client();
    for (const byte of add('a')) {
      php.send(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await php.replies(1)).toEqual([succ]);
    const ids = Array.from({ length: 20 }, (_, n) => `j${n}`);
    php.send(ids.flatMap((id) => [add(id), get(id), del(id), del(id)]).join(''));
    const replies = await php.replies(80);
    for (const [n, id] of ids.entries()) {
      const [added, read, deleted, again] = replies.slice(4 * n, 4 * n + 4);
      expect([added, deleted, again]).toEqual([succ, succ, fail]);
      expect(read).toContain(`"data":{"id":"${id}","notify_time"`);
    }
    php.send(add('last'));
    php.socket.end();
    expect(await php.closed()).toMatch(/"fail","data":\[\]}0033{"code":1,"msg":"succ","data":\[\]}$/);
  });

  it('frames: adds of one connection share store calls', async () => {
    let calls = 0;
    const dq = await start({
      store: withJobs((real) => ({
        push: (...args) => {
          calls += 1;
          return real.push(...args);
        },
      })),
    });
    const php = dq.client();
    php.send(Array.from({ length: 100 }, (_, n) => add(`j${n}`)).join(''));
    expect(await php.replies(100)).toEqual(Array(100).fill(succ));
    expect(calls).toBeLessThan(20);
  });

  it('frames: a client that does not read is not read either', async () => {
    const time = useJumpingTime();
    const answerMs = 60_000;
    const dq = await start({}, answerMs);
    await dq.push('t', `{"a":"${'x'.repeat(9_000)}"}`, '?id=big');
    const php = dq.client();
    php.socket.pause();
    const wave = frame({ cmd: 'get', topic: 't', id: 'big', pad: 'x'.repeat(9_000) }).repeat(10);
    let sent = 0;
    let [taken, still] = [0, 0];
    await until('dq has stopped reading', () => {
      if (php.socket.writableLength === 0) {
        php.send(wave);
        sent += 10;
      }
      // Sockets hold some MB in the kernel. dq reads in the turns between these looks.
      still = php.socket.bytesWritten - php.socket.writableLength === taken ? still + 1 : 0;
      taken = php.socket.bytesWritten - php.socket.writableLength;
      return php.socket.writableLength > 0 && dq.role.inFlight() === 0 && sent > 100 && still > 10;
    });
    // The requests in the socket become too old.
    await time.jump(answerMs + 1);
    php.socket.resume();
    const received = await php.closed();
    const [first = ''] = await php.replies(1);
    expect(first.slice(0, 30)).toMatch(/^9\d{3}{"code":1,"msg":"succ"/);
    const answered = received.length / first.length;
    expect(received).toBe(first.repeat(answered));
    expect(answered).toBeLessThan(sent);
    expect(dq.counts()).toMatchObject({ 'php get ok': answered });
  });

  it('frames: a request long after a pause of reading has all its time', async () => {
    const time = useJumpingTime();
    const answerMs = 60_000;
    const dq = await start({}, answerMs);
    await dq.push('t', '{"a":1}', '?id=a');
    const php = dq.client();
    // More requests at once than dq holds: it pauses behind the last one.
    php.send(frame({ cmd: 'get', topic: 't', id: 'a', pad: 'x'.repeat(9_000) }).repeat(14));
    await php.replies(14);
    await time.jump(answerMs + 100);
    expect(await php.ask({ cmd: 'del', topic: 't', id: 'a' })).toBe(succ);
  });

  it('frames: malformed ones are closed without a reply', async () => {
    const dq = await start({ compatTimes: { frameMs: 300, idleMs: 60_000, drainIdleMs: 100 } });
    const malformed: [string | Buffer, string | null][] = [
      ['GET / HTTP/1.1\r\n', 'a frame begins with 4 digits'],
      ['0', null],
      ['0012', null],
      ['0012{"a":1', null],
      ['00001', 'a frame of no bytes'],
      ['0007[1,2,3]', 'a frame holds a JSON object'],
      ['10000{"a":1', 'too long: a frame has at most 9999 bytes'],
      ['0005{"a"}', 'a frame holds invalid JSON or invalid UTF-8'],
      [Buffer.from('0009{"a":"\xff"}', 'latin1'), 'a frame holds invalid JSON or invalid UTF-8'],
    ];
    const closed = malformed.map(async ([bytes, reason], n) => {
      const php = dq.client();
      php.send(add('before'));
      expect(await php.replies(1)).toEqual([succ]);
      const after = reason === null ? '' : add(`after${n}`);
      php.send(Buffer.concat([Buffer.from(add(`a${n}`)), Buffer.from(bytes), Buffer.from(after)]));
      // The request before it is answered.
      expect(await php.closed(), String(bytes)).toBe(succ + succ);
      expect(await dq.store.jobs.get({ topic: 't', id: `a${n}` })).not.toBeNull();
      expect(await dq.store.jobs.get({ topic: 't', id: `after${n}` })).toBeNull();
    });
    await Promise.all(closed);
    const reasons = malformed.map(([, reason]) => `frame: ${reason ?? 'a frame is incomplete'}`);
    const lines = dq.requests.filter(({ code }) => code === 'invalid');
    expect(lines).toEqual(
      lines.map(() => expect.objectContaining({ via: 'php', status: 400, topic: null, id: null })),
    );
    // A few lines a second.
    expect(lines.length).toBeGreaterThan(0);
    for (const { reason } of lines) expect(reasons).toContain(reason);
    expect(dq.counts()).toEqual({ 'php add ok': 18, 'php other closed': malformed.length });
  });

  it('frames: each has its time, however long the connection lives', async () => {
    const frameMs = 400;
    const dq = await start({ compatTimes: { frameMs, idleMs: 60_000, drainIdleMs: 100 } });
    const php = dq.client();
    const from = performance.now();
    let n = 0;
    while (performance.now() - from < 3 * frameMs) {
      // The end of one frame and the begin of the next one arrive together.
      php.send((n === 0 ? '' : add(`j${n - 1}`).slice(6)) + add(`j${n}`).slice(0, 6));
      if (n > 0) expect(await php.replies(1)).toEqual([succ]);
      n += 1;
    }
    expect(n).toBeGreaterThan(2);
    expect(await php.closed()).toBe(succ.repeat(n - 1));
    expect(dq.requests.at(-1)).toMatchObject({ via: 'php', reason: 'frame: a frame is incomplete' });
  });

  it('idle connections end after their time only', async () => {
    const idleMs = 500;
    const dq = await start({ compatTimes: { frameMs: 60_000, idleMs, drainIdleMs: 100 } });
    const php = dq.client();
    const from = performance.now();
    await php.ask({});
    expect(await php.closed()).toBe(fail);
    expect(performance.now() - from).toBeGreaterThan(idleMs - 10);
  });
});

describe('silent connections', () => {
  it('end when a new one leaves few places; the others stay', async () => {
    const time = useJumpingTime();
    const silentMs = 60_000;
    const times = { frameMs: 60_000, idleMs: 60_000, drainIdleMs: 100, silentMs, connectionsMax: 4 };
    const dq = await start({ compatTimes: times });
    const [silent, busy, later] = [dq.client(), dq.client(), dq.client()];
    for (const php of [silent, busy, later]) expect(await php.ask({})).toBe(fail);
    await time.jump(silentMs + 1);
    expect(await busy.ask({})).toBe(fail);
    const next = dq.client();
    expect(await next.ask({})).toBe(fail);
    expect(await Promise.all([silent.closed(), later.closed()])).toEqual([fail, fail]);
    expect(await busy.ask({})).toBe(fail);
    expect(await next.ask({})).toBe(fail);
  });
});

describe('unknown outcomes', () => {
  const add = { cmd: 'add', topic: 't', id: 'a', body: {} };

  it('900 ms without an outcome: closed without a byte', async () => {
    const time = useJumpingTime();
    let hangs = false;
    let hanging = 0;
    const hang = () => {
      hanging += 1;
      return new Promise<never>(() => {});
    };
    const dq = await start(
      {
        store: withJobs((real) => ({
          push: (jobs) => (hangs ? hang() : real.push(jobs)),
          get: (key) => (hangs ? hang() : real.get(key)),
        })),
      },
      compatLimits.answerMs,
    );
    const clients = [dq.client(), dq.client()];
    for (const php of clients) expect(await php.ask(add)).toBe(succ);
    hangs = true;
    const requests = [add, { cmd: 'get', topic: 't', id: 'a' }];
    // A reply that is ready early must not overtake the one before it.
    for (const [n, php] of clients.entries())
      php.send(frame(requests[n] as object) + frame({ cmd: 'unknown' }));
    await until('both hang', () => hanging === 2);
    await time.jump(compatLimits.answerMs);
    for (const php of clients) expect(await php.closed()).toBe(succ);
    hangs = false;
    expect(await dq.client().ask({ cmd: 'get', topic: 't', id: 'a' })).toContain('succ');
    expect(dq.errors).toHaveLength(1);
    expect(dq.errors[0]).toMatch(/^php: no outcome within 900 ms; dq closes such connections/);
    expect(dq.counts()).toEqual({
      ...{ 'php add ok': 2, 'php add closed': 1, 'php get closed': 1, 'php get ok': 1 },
      'php other closed': 2,
    });
  });

  it('900 ms: a reply that is ready later is not sent', async () => {
    const dq = await start(
      {
        // Its outcome is there before any timer of the connection runs.
        store: withJobs(() => ({ get: async () => block(950) })),
      },
      compatLimits.answerMs,
    );
    const php = dq.client();
    expect(await php.ask(add)).toBe(succ);
    php.send(frame({ cmd: 'get', topic: 't', id: 'a' }));
    expect(await php.closed()).toBe(succ);
    expect(dq.counts()).toEqual({ 'php add ok': 1, 'php get closed': 1 });
    expect(dq.errors).toHaveLength(1);
  });

  it('900 ms: count from the arrival, also while the event loop was busy', async () => {
    const dq = await start({}, compatLimits.answerMs);
    const clients = [dq.client(), dq.client()];
    for (const php of clients) expect(await php.ask({})).toBe(fail);
    for (const php of clients) php.send(frame(add));
    block(950);
    for (const php of clients) expect(await php.closed()).toBe(fail);
    expect(await dq.store.jobs.get({ topic: 't', id: 'a' })).toBeNull();
    expect(await dq.client().ask(add)).toBe(succ);
  });

  it('unknown, and a del or get that was not executed: closed; not stored: fail', async () => {
    const unavailable = { kind: 'not_stored', code: 'unavailable' } as const;
    const dq = await start({
      store: withJobs(() => ({
        push: async (jobs) =>
          jobs.map(({ id }) => (id === 'a' ? { kind: 'unknown', code: 'no_answer' } : unavailable)),
        cancel: async (keys) =>
          keys.map(({ id }) => (id === 'a' ? { kind: 'unknown', code: 'no_answer' } : unavailable)),
        get: async () => {
          throw new StoreError(unavailable);
        },
      })),
    });
    for (const request of [
      add,
      { cmd: 'del', topic: 't', id: 'a' },
      { cmd: 'del', topic: 't', id: 'b' },
      { cmd: 'get', topic: 't', id: 'a' },
    ]) {
      const php = dq.client();
      php.send(frame(request));
      expect(await php.closed(), JSON.stringify(request)).toBe('');
    }
    const php = dq.client();
    expect(await php.ask({ ...add, id: 'b' })).toBe(fail);
    expect(dq.requests.at(-1)).toMatchObject({ code: 'not_stored', status: 503, via: 'php' });
  });
});

/** Stops the event loop of client and server. */
function block(ms: number): null {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  return null;
}

describe('callers', () => {
  it('compat.allow: closes other callers at once, and logs a few lines a second', async () => {
    const dq = await start({ config: { 'compat.allow': ['10.0.0.0/8', '2001:db8::/32'] } });
    for (let n = 0; n < 20; n += 1) {
      const php = dq.client();
      php.send(frame({ cmd: 'add', topic: 't', id: 'a', body: {} }));
      expect(await php.closed()).toMatch(/^(\(reset\))?$/);
    }
    expect(await dq.store.jobs.get({ topic: 't', id: 'a' })).toBeNull();
    const lines = dq.requests.filter(({ via }) => via === 'php');
    expect(lines.length).toBeLessThan(20);
    expect(lines[0]).toMatchObject({ status: 403, reason: '127.0.0.1 is not in compat.allow' });
  });

  it('compat.allow: serves its callers', async () => {
    const dq = await start({ config: { 'compat.allow': ['127.0.0.1'] } });
    expect(await dq.client().ask({ cmd: 'add', topic: 't', id: 'a', body: {} })).toBe(succ);
  });

  it('compat.scopes and compat.topics limit what callers may do', async () => {
    const limited = async (config: Readonly<Record<string, unknown>>) => {
      const dq = await start({ config });
      await dq.push('t', '{}', '?id=a');
      const php = dq.client();
      return [
        await php.ask({ cmd: 'add', topic: 't', id: 'b', body: {} }),
        (await php.ask({ cmd: 'get', topic: 't', id: 'a' })).slice(4, 31),
        await php.ask({ cmd: 'del', topic: 't', id: 'a' }),
      ];
    };
    const got = '{"code":1,"msg":"succ","dat';
    const notGot = '{"code":0,"msg":"fail","dat';
    expect(await limited({ 'compat.scopes': ['read'] })).toEqual([fail, got, fail]);
    expect(await limited({ 'compat.scopes': ['push'] })).toEqual([succ, notGot, succ]);
    expect(await limited({ 'compat.topics': ['x.*'] })).toEqual([fail, notGot, fail]);
    expect(await limited({ 'compat.topics': ['x.*', 't*'] })).toEqual([succ, got, succ]);
  });

  it('connections: 2,000 idle ones stay, the next one is closed, and a free place is taken', async () => {
    const dq = await start();
    const clients: PhpClient[] = [];
    while (clients.length < 2_000) {
      const more = Array.from({ length: 200 }, dq.client);
      for (const reply of await Promise.all(more.map((php) => php.ask({})))) expect(reply).toBe(fail);
      clients.push(...more);
    }
    const php = dq.client();
    expect(await php.closed()).toMatch(/^(\(reset\))?$/);
    expect(dq.requests.at(-1)).toMatchObject({ via: 'php', reason: 'more than 2000 connections' });
    for (const idle of clients) idle.send(frame({}));
    for (const idle of clients) expect(await idle.replies(1)).toEqual([fail]);
    clients[0]?.socket.destroy();
    await until('a place is free', async () => {
      const next = dq.client();
      next.send(frame({}));
      return (await Promise.race([next.closed(), next.replies(1)]))[0] === fail;
    });
  });
});

describe('drain', () => {
  const times = { frameMs: 60_000, idleMs: 60_000, drainIdleMs: 1_000 };

  it('drain: serves open connections until they are idle, and accepts no new one', async () => {
    const dq = await start({ compatTimes: times });
    const php = dq.client();
    expect(await php.ask({ cmd: 'add', topic: 't', id: 'a', body: {} })).toBe(succ);
    const drained = dq.role.drain(30_000);
    await until('the port is closed', () => refuses(dq.phpPort));
    for (let n = 0; n < 20; n += 1)
      expect(await php.ask({ cmd: 'add', topic: 't', id: `j${n}`, body: {} })).toBe(succ);
    expect(await php.closed()).toBe(succ.repeat(21));
    await drained;
  });

  it('drain: ends a busy connection behind a reply, in the second half of its time', async () => {
    const time = useJumpingTime();
    const dq = await start({ compatTimes: { ...times, drainIdleMs: 60_000 } });
    const php = dq.client();
    const add = { cmd: 'add', topic: 't', id: 'a', body: {} };
    expect(await php.ask(add)).toBe(succ);
    const drained = dq.role.drain(60_000);
    for (let n = 0; n < 20; n += 1) expect(await php.ask(add)).toBe(succ);
    await time.jump(30_000);
    expect(await php.ask(add)).toBe(succ);
    expect(await php.closed()).toBe(succ.repeat(22));
    await drained;
  });

  it('drain: ends at its deadline', async () => {
    const dq = await start({ compatTimes: { ...times, drainIdleMs: 60_000 } });
    const php = dq.client();
    await php.ask({});
    await dq.role.drain(200);
    expect(await php.closed()).toMatch(/^0033.*}(\(reset\))?$/);
  });
});
