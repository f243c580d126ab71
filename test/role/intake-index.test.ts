// Tests GET /, the entry for a caller that knows only the port.
import { describe, expect, it } from 'vitest';
import { version } from '../../src/core/version.ts';
import { adminToken, bearer, startIntake, tokenFor } from '../support/intake.ts';
import { answerAsMaster } from '../support/master-answers.ts';

it('HEAD: each GET route answers it as GET, without a body', async () => {
  const dq = await startIntake({ onSend: answerAsMaster });
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9/', delay: '1h' });
  await dq.push('t', '1', '?id=1');
  const paths = Object.entries(dq.description.paths).filter(([, methods]) => 'get' in methods);
  expect(paths.length).toBeGreaterThan(30);
  for (const [pattern] of paths) {
    const path = pattern.replace('{topic}', 't').replace(/\{[^}]+\}/g, '1');
    const [get, head] = await Promise.all(
      ['GET', 'HEAD'].map((method) => fetch(dq.url + path, { method, headers: bearer(adminToken) })),
    );
    // A streamed reply has no length.
    const shown = (reply: Response | undefined) => [
      ...[reply?.status, reply?.headers.get('content-type'), reply?.headers.has('content-length')],
    ];
    expect(shown(head), path).toEqual(shown(get));
    await get?.arrayBuffer();
    expect(await head?.text()).toBe('');
  }
});

it('HEAD: needs what GET needs', async () => {
  const dq = await startIntake();
  await dq.api('POST', '/v1/tokens', { name: 'a', scopes: ['push'] });
  const statusOf = async (path: string) => (await fetch(dq.url + path, { method: 'HEAD' })).status;
  expect([await statusOf('/'), await statusOf('/v1/topics'), await statusOf('/livez')]).toEqual([
    401, 401, 200,
  ]);
  const pusher = (await tokenFor(dq, ['*'], ['push'])).headers;
  expect((await fetch(`${dq.url}/v1/topics`, { method: 'HEAD', headers: pusher })).status).toBe(403);
});

describe('GET /', () => {
  it('answers name, version and links that exist', async () => {
    const dq = await startIntake({
      onSend: answerAsMaster,
    });
    const { status, body } = await dq.api('GET', '/');
    expect([status, body.name, body.version]).toEqual([200, 'dq', version]);
    expect(body.links).toMatchObject({ openapi: '/openapi.json', readyz: '/readyz', topics: '/v1/topics' });
    for (const path of Object.values(body.links as Record<string, string>)) {
      const reply = await fetch(dq.url + path, { headers: bearer(adminToken) });
      // Shards need Redis.
      expect(reply.status, path).toBe(path === '/v1/shards' ? 409 : 200);
    }
  });

  it('needs a token once one exists, like unknown paths and wrong methods', async () => {
    const dq = await startIntake();
    await dq.api('POST', '/v1/tokens', { name: 'a', scopes: ['push'] });
    for (const [method, path] of [
      ['GET', '/'],
      ['POST', '/'],
      ['PUT', '/v1/topics'],
      ['GET', '/nowhere'],
    ] as const) {
      const reply = await dq.call(method, path);
      expect([reply.status, reply.body.code, reply.headers.get('allow')], `${method} ${path}`).toEqual([
        401,
        'unauthorized',
        null,
      ]);
    }
  });
});
