// Tests the topic routes: create, change, states, list, delete.
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { TopicField } from '../../src/core/topic/field-kinds.ts';
import { topicFields } from '../../src/core/topic/fields.ts';
import { secretDigest } from '../../src/core/topic/secrets.ts';
import { apiName } from '../../src/core/topic/settings.ts';
import { useCaseLimits } from '../../src/use-cases/limits.ts';
import type { ApiReply } from '../support/daemon.ts';
import { startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { problem } from '../support/problem.ts';
import { until } from '../support/until.ts';
import { words } from '../support/words.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake();
});

const callbackUrl = 'http://127.0.0.1:9000/';
const create = (topic: string, more: object = {}) =>
  dq.api('POST', '/v1/topics', { topic, callbackUrl, ...more });

async function storedTopic(name: string) {
  const topic = await dq.registry.get(name);
  if (topic === null) throw new Error(`no topic ${name}`);
  return topic;
}

/** The manual's table shows the same defaults, which test/unit/manual.test.ts compares. */
const defaults = {
  ...Object.fromEntries(
    Object.entries(topicFields).map(([key, { default: value, print }]: [string, TopicField]) => [
      apiName(key),
      print === undefined ? value : print(value),
    ]),
  ),
  callbackUrl,
  state: 'active',
  secretDigest: expect.stringMatching(/^[\w-]{43}$/),
  revision: expect.any(Number),
  createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
  updatedAt: expect.stringMatching(/^\d{4}-.*Z$/),
};

describe('create', () => {
  it('answers 201 with the whole topic and a secret, which nothing shows again', async () => {
    const { status, body } = await create('a');
    expect({ status, body }).toEqual({
      status: 201,
      body: { topic: 'a', ...defaults, secret: expect.any(String) },
    });
    expect(body.secret).toMatch(/^whsec_[A-Za-z0-9+/]+=*$/);
    expect(Buffer.from(body.secret.slice(6), 'base64')).toHaveLength(32);
    const shown = [
      await dq.api('GET', '/v1/topics/a'),
      await dq.api('GET', '/v1/topics'),
      await dq.api('PUT', '/v1/topics/a', { callbackUrl }),
      await dq.api('PATCH', '/v1/topics/a', { title: 'x' }),
      await dq.api('POST', '/v1/topics/a/pause'),
      await dq.api('GET', '/v1/stats'),
    ];
    expect(JSON.stringify(shown)).not.toContain('whsec_');
    expect((await dq.registry.get('a'))?.secrets).toEqual([{ secret: body.secret, untilAt: null }]);
  });

  it('generates a secret for each topic, or accepts a given one', async () => {
    const given = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
    const [a, b, c] = [await create('a'), await create('b'), await create('c', { secret: given })];
    expect(a.body.secret).not.toBe(b.body.secret);
    expect(c.body.secret).toBe(given);
  });

  it('an existing name is 409, and changes nothing', async () => {
    await create('a', { title: 'first' });
    expect(await create('a', { title: 'second' })).toMatchObject(problem(409, 'topic_exists'));
    expect((await dq.api('GET', '/v1/topics/a')).body.title).toBe('first');
  });

  it('rejects its own port as callback, also a port chosen at the start', async () => {
    expect(await create('self', { callbackUrl: `${dq.url}/v1/topics/self/jobs` })).toMatchObject(
      problem(400, 'invalid', 'callbackUrl'),
    );
    expect(
      (await create('other', { callbackUrl: `http://127.0.0.1:${dq.port === 65_535 ? 1 : dq.port + 1}/` }))
        .status,
    ).toBe(201);
  });

  it('is in force at once in its own process', async () => {
    for (let n = 0; n < 10; n++) {
      await create(`t${n}`);
      expect((await dq.push(`t${n}`, '1')).status).toBe(201);
    }
  });

  it('names every mistake at once', async () => {
    const { status, body } = await create('-', { callbackUrl: 'ftp://x', nope: 1, maxAttempts: 0 });
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid' });
    expect(body.errors.map((error: { field: string }) => error.field).sort()).toEqual(words`
      callbackUrl maxAttempts nope topic
    `);
  });

  it('needs a name and a callback', async () => {
    expect((await dq.api('POST', '/v1/topics', { callbackUrl })).body.errors).toEqual([
      { field: 'topic', message: 'is required' },
    ]);
    expect((await dq.api('POST', '/v1/topics', { topic: 'a' })).body.errors).toEqual([
      { field: 'callbackUrl', message: 'is needed' },
    ]);
  });
});

describe('a pull topic', () => {
  const pull = (topic: string, more: object = {}) =>
    dq.api('POST', '/v1/topics', { topic, delivery: 'pull', ...more });

  it('has no callback, and rejects every field of a call', async () => {
    expect((await pull('p')).body).toMatchObject({ delivery: 'pull', lease: '1m', callbackUrl: null });
    const call = {
      ...{ callbackUrl, method: 'PUT', format: 'form', headers: { 'x-a': '1' }, timeout: '5s' },
      ...{ retryIf: '{res.status}>299', okStatus: ['200'], emptyReply: 'retry', concurrency: 1, rate: 1 },
      dangerouslySkipTlsVerify: true,
    };
    const { status, body } = await pull('q', call);
    expect(status).toBe(400);
    expect(body.errors.map(({ field }: { field: string }) => field).sort()).toEqual(Object.keys(call).sort());
  });

  it('may try again at once, which a callback may not', async () => {
    expect((await pull('p', { backoff: ['0s'] })).body.backoff).toEqual(['0s']);
    const rejected = async (reply: Promise<ApiReply>) =>
      (await reply).body.errors?.map(({ field }: { field: string }) => field);
    expect(await rejected(create('a', { backoff: ['0s', '1m'] }))).toEqual(['backoff']);
    const patch = dq.api('PATCH', '/v1/topics/p', { delivery: 'push', callbackUrl });
    expect(await rejected(patch)).toEqual(['backoff']);
  });

  it('can be put as it was read', async () => {
    await pull('p', { lease: '5m' });
    const { body: read } = await dq.api('GET', '/v1/topics/p');
    const { createdAt: _, updatedAt: __, ...again } = read;
    expect(await dq.api('PUT', '/v1/topics/p', again)).toMatchObject({
      status: 200,
      body: { delivery: 'pull', lease: '5m', callbackUrl: null },
    });
  });

  it('becomes one with a callback, and back, which drops the fields of a call', async () => {
    await pull('p');
    const patch = (json: object) => dq.api('PATCH', '/v1/topics/p', json);
    expect((await patch({ delivery: 'push' })).body.errors).toEqual([
      { field: 'callbackUrl', message: 'is needed' },
    ]);
    expect((await patch({ delivery: 'push', callbackUrl, concurrency: 3 })).body).toMatchObject({
      ...{ delivery: 'push', concurrency: 3, callbackUrl },
    });
    expect((await patch({ delivery: 'pull' })).body).toMatchObject({ concurrency: 64, callbackUrl: null });
    expect((await patch({ callbackUrl })).status).toBe(400);
  });

  it('makes no test call and no request', async () => {
    await pull('p');
    expect((await dq.push('p', '1', '?id=a')).status).toBe(201);
    for (const path of ['/v1/topics/p/test-call', '/v1/topics/p/jobs/a/request'])
      expect(await dq.api('POST', path, path.endsWith('call') ? {} : undefined), path).toMatchObject(
        problem(409, 'topic_not_push'),
      );
  });
});

describe('emptyReply', () => {
  const emptyReplyOf = (reply: { body: { emptyReply: string } }) => reply.body.emptyReply;

  it('defaults to accept for raw and to retry for form', async () => {
    expect(emptyReplyOf(await create('a'))).toBe('accept');
    expect(emptyReplyOf(await create('b', { format: 'raw' }))).toBe('accept');
    expect(emptyReplyOf(await create('c', { format: 'form' }))).toBe('retry');
    expect(emptyReplyOf(await create('d', { format: 'form', emptyReply: 'accept' }))).toBe('accept');
    expect(emptyReplyOf(await dq.api('PUT', '/v1/topics/d', { callbackUrl, format: 'form' }))).toBe('retry');
    expect(emptyReplyOf(await dq.api('PUT', '/v1/topics/c', { callbackUrl }))).toBe('accept');
  });

  it('is stored, and stays when a PATCH changes only the format', async () => {
    await create('a');
    expect(emptyReplyOf(await dq.api('PATCH', '/v1/topics/a', { format: 'form' }))).toBe('accept');
    await create('b', { format: 'form' });
    expect(emptyReplyOf(await dq.api('PATCH', '/v1/topics/b', { format: 'raw' }))).toBe('retry');
    expect((await dq.registry.get('b'))?.emptyReply).toBe('retry');
  });
});

describe('method and format', () => {
  it('GET needs format form, however the two come together', async () => {
    const refusal = (field: string) => ({ status: 400, body: { code: 'invalid', errors: [{ field }] } });
    expect(await create('a', { method: 'GET' })).toMatchObject(refusal('method'));
    expect(await dq.api('PUT', '/v1/topics/a', { callbackUrl, method: 'GET' })).toMatchObject(
      refusal('method'),
    );
    await create('a');
    expect(await dq.api('PATCH', '/v1/topics/a', { method: 'GET' })).toMatchObject(refusal('method'));
    expect(await dq.api('PATCH', '/v1/topics/a', { method: 'GET', format: 'form' })).toMatchObject({
      status: 200,
      body: { method: 'GET', format: 'form' },
    });
    expect(await dq.api('PATCH', '/v1/topics/a', { format: 'raw' })).toMatchObject(refusal('format'));
    expect((await dq.api('PATCH', '/v1/topics/a', { title: 'x' })).status).toBe(200);
    expect((await dq.api('PATCH', '/v1/topics/a', { format: 'raw', method: 'PUT' })).status).toBe(200);
  });

  it.each(['application/json', 'text/plain', ''])(
    'a push to a form topic must be a JSON object, whatever its content type says: %s',
    async (contentType) => {
      await create('f', { format: 'form' });
      for (const body of ['{}', ' {"a":[1]}\n', '{"a":1,"a":2}'])
        expect((await dq.push('f', body, '', contentType)).status, body).toBe(201);
      for (const body of ['[1]', '"x"', '5', 'null', 'true'])
        expect(await dq.push('f', body, '', contentType), body).toMatchObject({
          status: 400,
          body: {
            code: 'invalid',
            errors: [{ field: 'body', message: expect.stringContaining('JSON object') }],
          },
        });
      for (const body of ['', 'a=1&b=2', '{"a":1', Buffer.from('{"\xff":1}', 'latin1')])
        expect(await dq.push('f', body, '', contentType), String(body)).toMatchObject({
          status: 400,
          body: {
            code: 'malformed_json',
            errors: [{ field: 'body', message: expect.stringContaining('JSON object') }],
          },
        });
    },
  );
});

describe('put and patch', () => {
  it('PUT shows the secret of a created topic, not of a replaced one', async () => {
    const { status, body } = await dq.api('PUT', '/v1/topics/a', { callbackUrl });
    expect([status, body.secret]).toEqual([201, expect.stringMatching(/^whsec_/)]);
    expect((await dq.registry.get('a'))?.secrets).toEqual([{ secret: body.secret, untilAt: null }]);
    const replaced = await dq.api('PUT', '/v1/topics/a', { callbackUrl, secret: body.secret });
    expect([replaced.status, JSON.stringify(replaced.body).includes('whsec_')]).toEqual([200, false]);
    const given = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
    expect((await dq.api('PUT', '/v1/topics/b', { callbackUrl, secret: given })).body.secret).toBe(given);
  });

  it('PUT creates with 201, replaces with 200, resets missing fields to defaults', async () => {
    const created = await dq.api('PUT', '/v1/topics/a', {
      ...{ callbackUrl, title: 'x', maxAttempts: 3, state: 'paused' },
    });
    expect(created).toMatchObject({
      status: 201,
      body: { ...defaults, title: 'x', maxAttempts: 3, state: 'paused' },
    });
    const secrets = (await dq.registry.get('a'))?.secrets;
    const replaced = await dq.api('PUT', '/v1/topics/a', { callbackUrl, owner: 'me' });
    expect(replaced).toMatchObject({ status: 200, body: { ...defaults, owner: 'me' } });
    expect((await dq.registry.get('a'))?.secrets).toEqual(secrets);
  });

  it('PATCH changes the given fields and no other', async () => {
    const { body: before } = await create('a', { title: 'x', headers: { 'X-A': '1' } });
    const { status, body } = await dq.api('PATCH', '/v1/topics/a', { delay: '90s' });
    const { secret: _, updatedAt: __, revision: ___, ...rest } = before;
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { ...rest, delay: '1m30s', headers: { 'x-a': '1' } },
    });
  });

  it('PATCH with nothing changes nothing', async () => {
    await create('a', { title: 'x' });
    expect(await dq.api('PATCH', '/v1/topics/a', {})).toMatchObject({ status: 200, body: { title: 'x' } });
  });

  it('PUT accepts what GET shows', async () => {
    await create('a', {
      backoff: { type: 'exponential', base: '10s', factor: 1.5, cap: '1h' },
      retryIf: '{res.code}!=200',
      okStatus: ['2xx', '404'],
      jitter: 0.25,
      headers: { authorization: 'Basic x' },
    });
    const { body } = await dq.api('GET', '/v1/topics/a');
    const { createdAt: _, updatedAt: __, ...written } = body;
    const { body: after } = await dq.api('PUT', '/v1/topics/a', written);
    expect({ ...after, updatedAt: body.updatedAt, revision: body.revision }).toEqual(body);
  });

  it('the digest of the secret tells an admin alone whether it is the same', async () => {
    const secret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
    const { body: created } = await create('a', { secret });
    expect(created.secretDigest).toBe(secretDigest('a', secret));
    const other = (await create('b', { secret })).body.secretDigest;
    expect(other).not.toBe(created.secretDigest);
    await dq.api('POST', '/v1/topics/a/secret');
    const { body: rotated } = await dq.api('GET', '/v1/topics/a');
    expect(rotated.secretDigest).not.toBe(created.secretDigest);
    expect((await dq.api('PATCH', '/v1/topics/a', { secretDigest: other })).body.secretDigest).toBe(
      rotated.secretDigest,
    );
    const seen = await dq.call('GET', '/v1/topics/a', await tokenFor(dq, ['*']));
    expect(seen.body.secretDigest).toBeNull();
  });

  it('the name in the body must be the one in the path', async () => {
    await create('a');
    expect((await dq.api('PATCH', '/v1/topics/a', { topic: 'a' })).status).toBe(200);
    for (const method of ['PATCH', 'PUT'])
      expect(await dq.api(method, '/v1/topics/a', { callbackUrl, topic: 'b' })).toMatchObject(
        problem(400, 'invalid', 'topic'),
      );
    expect(await dq.api('PUT', '/v1/topics/-', { callbackUrl })).toMatchObject(
      problem(400, 'invalid', 'topic'),
    );
  });

  it('PUT and PATCH accept only the current secret', async () => {
    const secret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
    await create('a', { secret });
    expect((await dq.api('PUT', '/v1/topics/a', { callbackUrl, secret })).status).toBe(200);
    for (const method of ['PATCH', 'PUT'])
      expect(
        await dq.api(method, '/v1/topics/a', {
          callbackUrl,
          secret: `whsec_${Buffer.alloc(32, 2).toString('base64')}`,
        }),
      ).toMatchObject(problem(400, 'invalid', 'secret'));
    expect((await dq.registry.get('a'))?.secrets).toEqual([{ secret, untilAt: null }]);
  });

  it('a hook that the configuration lacks is rejected, and hides no topic that has it', async () => {
    dq = await startIntake({ config: { 'alerts.hooks': ['ops=slack+http://127.0.0.1:9/s3cret'] } });
    expect((await create('a', { alertHooks: ['ops'] })).status).toBe(201);
    const rejected = await dq.api('PATCH', '/v1/topics/a', { alertHooks: ['ops', 'nope'] });
    expect(rejected).toMatchObject({
      status: 400,
      body: {
        errors: [{ field: 'alertHooks[1]', message: 'alerts.hooks has no "nope"; configured: ops' }],
      },
    });
    const { revision, createdAt, updatedAt, ...stored } = await storedTopic('a');
    await dq.registry.update({ ...stored, alertHooks: ['gone'] }, revision);
    expect((await dq.api('PATCH', '/v1/topics/a', { title: 'x' })).body).toMatchObject({
      title: 'x',
      alertHooks: ['gone'],
    });
    expect((await dq.api('GET', '/v1/topics/a')).body.alertHooks).toEqual(['gone']);
  });

  it('concurrent changes are all kept', async () => {
    await create('a');
    const changes = [{ title: 'x' }, { owner: 'me' }, { maxAttempts: 7 }];
    const replies = await Promise.all(changes.map((change) => dq.api('PATCH', '/v1/topics/a', change)));
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await dq.api('GET', '/v1/topics/a')).body).toMatchObject({
      title: 'x',
      owner: 'me',
      maxAttempts: 7,
    });
  });

  it('PATCH of an unknown topic is 404', async () => {
    for (const path of ['/v1/topics/none', '/v1/topics/-'])
      expect(await dq.api('PATCH', path, {})).toMatchObject(problem(404, 'topic_not_found'));
    expect(await dq.api('GET', '/v1/topics/none')).toMatchObject(problem(404, 'topic_not_found'));
    expect(await dq.api('POST', '/v1/topics/none/pause')).toMatchObject(problem(404, 'topic_not_found'));
    expect(await dq.api('DELETE', '/v1/topics/none')).toMatchObject(problem(404, 'topic_not_found'));
  });
});

describe('states', () => {
  it('pause, offline and resume set the state, and can be repeated', async () => {
    await create('a', { title: 'x' });
    for (const [verb, state] of [
      ['pause', 'paused'],
      ['pause', 'paused'],
      ['offline', 'offline'],
      ['resume', 'active'],
      ['resume', 'active'],
    ] as const)
      expect(await dq.api('POST', `/v1/topics/a/${verb}`)).toMatchObject({
        status: 200,
        body: { title: 'x', state },
      });
  });
});

describe('list', () => {
  it('goes by name, in pages that have every topic once', async () => {
    const names = ['b', 'a', 'C', 'a.b', 'a-b', 'Z', 'aa'];
    for (const name of names) await create(name);
    const seen: string[] = [];
    let cursor = '';
    do {
      const { body } = await dq.api('GET', `/v1/topics?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
      seen.push(...body.items.map(({ topic }: { topic: string }) => topic));
      cursor = body.nextCursor;
    } while (cursor !== null);
    expect(seen).toEqual([...names].sort());
  });

  it('finds part of name, title or owner in any case, and an owner exactly', async () => {
    await create('order.close', { title: 'Closing', owner: 'Shop' });
    await create('mail', { title: 'About an ORDER', owner: 'shop' });
    await create('x');
    const found = async (query: string) =>
      (await dq.api('GET', `/v1/topics?${query}`)).body.items.map(({ topic }: { topic: string }) => topic);
    expect(await found('search=order')).toEqual(['mail', 'order.close']);
    expect(await found('search=SHOP')).toEqual(['mail', 'order.close']);
    expect(await found('owner=shop')).toEqual(['mail']);
    expect(await found('search=order&owner=Shop')).toEqual(['order.close']);
    expect(await found('search=%25')).toEqual([]);
    expect(await found('state=active&search=order')).toEqual(['mail', 'order.close']);
    expect(await found('state=paused')).toEqual([]);
  });

  it('rejects invalid limits and cursors', async () => {
    for (const query of ['limit=0', 'limit=-1', 'limit=1.5', 'limit=1001', 'limit=', 'limit=x'])
      expect(await dq.api('GET', `/v1/topics?${query}`), query).toMatchObject(
        problem(400, 'invalid', 'limit'),
      );
    for (const query of ['cursor=', 'cursor=*', 'cursor=-', 'cursor=YQ=='])
      expect(await dq.api('GET', `/v1/topics?${query}`), query).toMatchObject(
        problem(400, 'invalid', 'cursor'),
      );
  });
});

/** Starts a dq whose removals from the registry wait for `allow`. Until topicChangeMs have passed another
 *  process may accept a push: `pass` lets them pass. */
async function holdingRemovals() {
  const time = useJumpingTime();
  let allow = (): void => {};
  const allowed = new Promise<void>((resolve) => (allow = resolve));
  let removals = 0;
  dq = await startIntake({
    registry: (registry) => ({
      ...registry,
      remove: async (...asked) => {
        removals += 1;
        await allowed;
        return registry.remove(...asked);
      },
    }),
  });
  // After a failed expectation the removal would wait for ever.
  onTestFinished(allow);
  const pass = async () => {
    await until('it is offline', async () => (await dq.registry.get('a'))?.state === 'offline');
    await dq.topics.refresh();
    expect(removals).toBe(0);
    await time.jump(useCaseLimits.topicChangeMs);
  };
  return { allow, pass };
}

describe('delete', () => {
  it('is rejected while a job is stored, and changes nothing', async () => {
    await create('a');
    const before = (await dq.api('GET', '/v1/topics/a')).body;
    await dq.push('a', '1', '?id=x&delay=1h');
    expect(await dq.api('DELETE', '/v1/topics/a')).toMatchObject({
      status: 409,
      body: { code: 'topic_has_jobs', jobs: 1, purged: 0 },
    });
    expect((await dq.api('GET', '/v1/topics/a')).body).toEqual(before);
    expect((await dq.push('a', '1')).status).toBe(201);
    expect((await dq.api('GET', '/v1/topics/a/jobs/x')).status).toBe(200);
  });

  it('removes a topic without jobs; pushes are rejected meanwhile', async () => {
    const { allow, pass } = await holdingRemovals();
    await create('a');
    const deleting = dq.api('DELETE', '/v1/topics/a');
    await pass();
    expect(await dq.push('a', '1')).toMatchObject(problem(409, 'topic_offline'));
    allow();
    expect(await deleting).toMatchObject({ status: 200, body: { deleted: true, purged: 0 } });
    expect((await dq.api('GET', '/v1/topics/a')).status).toBe(404);
  });

  it('with jobs=purge removes the topic and its jobs', async () => {
    const { allow, pass } = await holdingRemovals();
    allow();
    await create('a');
    await create('b');
    for (const id of ['x', 'y']) await dq.push('a', '1', `?id=${id}`);
    await dq.push('b', '1', '?id=x');
    const deleting = dq.api('DELETE', '/v1/topics/a?jobs=purge');
    await pass();
    expect(await deleting).toMatchObject({ status: 200, body: { deleted: true, purged: 2 } });
    expect((await dq.api('GET', '/v1/topics/a')).status).toBe(404);
    expect(await dq.push('a', '1')).toMatchObject(problem(404, 'topic_not_found'));
    expect((await dq.api('GET', '/v1/topics/b/jobs/x')).status).toBe(200);
    expect(await dq.api('DELETE', '/v1/topics/b?jobs=all')).toMatchObject(problem(400, 'invalid', 'jobs'));
  });

  it('does not remove a topic that was set active meanwhile', async () => {
    const { allow, pass } = await holdingRemovals();
    await create('a');
    const deleting = dq.api('DELETE', '/v1/topics/a');
    await pass();
    await dq.api('POST', '/v1/topics/a/resume');
    allow();
    expect(await deleting).toMatchObject(problem(503, 'not_stored'));
    expect((await dq.api('GET', '/v1/topics/a')).body.state).toBe('active');
  });
});
