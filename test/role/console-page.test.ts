// Tests the files that the console serves: the closed map of the build, and the headers of every answer.
import { describe, expect, it } from 'vitest';
import { halvesIn, page, sessionAt, startConsole } from '../support/console.ts';

describe('files', () => {
  it('every path of the page answers the page; others are the API or 404', async () => {
    const console = await startConsole();
    const paths = ['/', '/topics', '/jobs/order.close/4711?x=1', '/assets', '/index.html', '/manifest.json'];
    for (const path of paths) {
      const reply = await console.send('GET', path);
      expect(reply.status, path).toBe(200);
      expect(reply.body.toString(), path).toBe(page);
      expect(reply.headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
        vary: 'accept-encoding',
      });
    }
    for (const path of [
      ...['/assets/b.js', '/assets/../manifest.json', '/assets/%2e%2e/manifest.json', '/assets/'],
      ...['/manual/nothing', '/manual/../manifest.json'],
    ])
      expect((await console.send('GET', path)).status, path).toBe(404);
    expect((await console.send('GET', '/manual/')).headers['location']).toBe('../manual');
    for (const path of ['/v1/nothing', '/v1', '/openapi.json', '/metrics'])
      expect((await console.send('GET', path)).status, path).toBe(401);
    expect((await console.send('GET', '/livez')).status).toBe(200);
    expect((await console.send('POST', '/')).status).toBe(401);
  });

  it('hashed files are immutable, in the coding that the browser accepts', async () => {
    const console = await startConsole();
    const get = (accepted: string) => console.send('GET', '/assets/a-1.js', { 'accept-encoding': accepted });
    for (const [accepted, coding, text] of [
      ['gzip, deflate, br, zstd', 'br', 'brotli of the script'],
      ['gzip', 'gzip', 'gzip of the script'],
      ['br;q=0, gzip;q=0.5', 'gzip', 'gzip of the script'],
      ['identity', undefined, 'script'],
      ['', undefined, 'script'],
    ] as const) {
      const { status, headers, body } = await get(accepted);
      expect([status, headers['content-encoding'], body.toString()], accepted).toEqual([200, coding, text]);
      expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
      expect(headers['content-length']).toBe(String(text.length));
      const again = await console.send('GET', '/assets/a-1.js', {
        'accept-encoding': accepted,
        'if-none-match': `"x", ${headers['etag']}`,
      });
      expect([again.status, again.body.length]).toEqual([304, 0]);
    }
    const head = await console.send('HEAD', '/assets/a-1.js');
    expect([head.status, head.headers['content-length'], head.body.length]).toEqual([200, '6', 0]);
  });

  it('a build without the page says so in one sentence; the API works', async () => {
    const console = await startConsole({ withoutPage: true });
    const { status, headers, body } = await console.send('GET', '/');
    expect([status, headers['content-type']]).toEqual([404, 'text/plain; charset=utf-8']);
    expect(body.toString()).toMatch(/^The console is not part of this build.*\n$/);
    expect((await console.signIn({})).status).toBe(200);
  });

  it('behind a proxy the page names its files and its base', async () => {
    const console = await startConsole({ config: { 'console.publicUrl': 'https://ops.example.org/dq/' } });
    for (const path of ['/dq', '/dq/', '/dq/topics', '/', '/topics']) {
      const { body, headers } = await console.send('GET', path, { 'accept-encoding': 'br' });
      expect(body.toString(), path).toBe(
        '<meta name="dq-base" content="/dq"><script src="/dq/assets/a-1.js"></script>',
      );
      expect(headers['content-encoding']).toBeUndefined();
    }
    for (const path of ['/dq/assets/a-1.js', '/assets/a-1.js'])
      expect((await console.send('GET', path)).body.toString(), path).toBe('script');
    expect((await console.send('GET', '/dq/v1/me')).status).toBe(401);
  });
});

describe('headers', () => {
  it('every answer forbids scripts of others, frames, guesses and referrers', async () => {
    const console = await startConsole();
    const replies = [
      await console.send('GET', '/'),
      await console.send('GET', '/assets/none'),
      await console.send('GET', '/v1/me'),
      await console.signIn({}),
      await console.signIn({ link: 'x' }),
      await console.send('GET', '/livez'),
    ];
    for (const { headers } of replies) {
      expect(headers['content-security-policy']).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
      );
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
      for (const name of Object.keys(headers)) expect(name).not.toMatch(/^access-control-/);
    }
    for (const { headers } of replies.slice(2)) {
      expect(headers['x-dq-build']).toMatch(/^[0-9a-f]{12}$/);
      expect(headers['cache-control']).toBe('no-store');
    }
  });

  it('a preflight is granted nothing', async () => {
    const console = await startConsole();
    const reply = await console.send('OPTIONS', '/v1/me', {
      origin: 'http://evil.example',
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'x-dq-key',
    });
    expect(reply.status).toBe(403);
    expect(Object.keys(reply.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});

describe('polls', () => {
  it('an unchanged reply is answered with 304, a changed one as it is', async () => {
    const console = await startConsole();
    const session = halvesIn(await sessionAt(console.port));
    const poll = (etag?: string | string[]) =>
      console.send('GET', '/v1/topics', {
        ...session,
        ...(typeof etag === 'string' ? { 'if-none-match': etag } : {}),
      });
    const first = await poll();
    const { etag } = first.headers;
    expect([first.status, first.json.items]).toEqual([200, []]);
    const second = await poll(etag);
    expect([second.status, second.body.length, second.headers['etag']]).toEqual([304, 0, etag]);
    expect(second.headers['cache-control']).toBe('no-store');
    const topic = JSON.stringify({ topic: 'order.close', callbackUrl: 'https://shop.example.org/dq' });
    const headers = { ...session, 'content-type': 'application/json' };
    expect((await console.send('POST', '/v1/topics', headers, topic)).status).toBe(201);
    const third = await poll(etag);
    expect([third.status, third.json.items.length]).toEqual([200, 1]);
    const ended = await console.send('GET', '/v1/topics', { 'if-none-match': String(etag) });
    expect(ended.status).toBe(401);
  });
});
