// Tests GET /, the entry for a caller that knows only the port.
import { describe, expect, it } from 'vitest';
import { adminToken, bearer, startIntake } from '../support/intake.ts';
import { answerAsMaster } from '../support/master-answers.ts';

describe('GET /', () => {
  it('answers name, version and links that exist', async () => {
    const dq = await startIntake({
      onSend: answerAsMaster,
    });
    const { status, body } = await dq.api('GET', '/');
    expect([status, body.name, body.version]).toEqual([200, 'dq', '0.0.0-test']);
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
