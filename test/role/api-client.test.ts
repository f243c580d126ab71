// Tests the HTTP client of the commands against a scripted server.
import type { IncomingMessage, RequestListener } from 'node:http';
import { createServer } from 'node:http';
import { describe, expect, it } from 'vitest';
import { ApiClient, ApiRefusal, sentenceOf } from '../../src/cli/daemon/api-client.ts';
import { Exit } from '../../src/cli/exit.ts';
import { listening } from '../support/listening.ts';

/** A server with scripted answers. */
async function serve(answer: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listening(createServer(answer))}`;
}

const clientOf = (url: string, pid: number | null = null) => new ApiClient({ url, token: 'dqk_t', pid });

async function failureOf(promise: Promise<unknown>): Promise<Exit> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof Exit)) throw new Error(`no Exit: ${String(error)}`);
  return error;
}

function problem(status: number, code: string, more: object = {}): RequestListener {
  return (_, response) =>
    response
      .writeHead(status, { 'content-type': 'application/problem+json' })
      .end(JSON.stringify({ title: 'Title', status, detail: 'What is wrong', code, errors: [], ...more }));
}

describe('ApiClient', () => {
  it('ApiClient: encodes segments and queries, sends the token, returns the reply unchanged', async () => {
    let seen: IncomingMessage | undefined;
    const url = await serve((request, response) => {
      seen = request;
      response.writeHead(200).end('{"b" : 1}');
    });
    const reply = await clientOf(url).call({
      method: 'GET',
      path: ['v1', 'topics', 'a', 'jobs', 'x/中 ?'],
      query: { at: '2030-01-01T00:00:00+08:00', none: undefined },
    });
    expect(reply.text).toBe('{"b" : 1}');
    expect(seen?.url).toBe('/v1/topics/a/jobs/x%2F%E4%B8%AD%20%3F?at=2030-01-01T00%3A00%3A00%2B08%3A00');
    expect(seen?.headers.authorization).toBe('Bearer dqk_t');
    expect(seen?.headers['content-length']).toBeUndefined();
  });

  it.each(['.', '..', ''])('ApiClient: rejects the segment %j, which a URL would resolve', async (id) => {
    let calls = 0;
    const url = await serve((_, response) => {
      calls += 1;
      response.end('{}');
    });
    const failure = await failureOf(
      clientOf(url).call({ method: 'DELETE', path: ['v1', 'topics', 'a', 'jobs', id] }),
    );
    expect(failure.exitCode).toBe(2);
    expect(calls).toBe(0);
  });

  it.each([
    [400, 'invalid', 1],
    [404, 'no_route', 1],
    [404, 'topic_not_found', 4],
    [404, 'job_not_found', 4],
    [409, 'job_exists', 1],
    [503, 'not_stored', 1],
  ])('ends for %d %s with exit code %d', async (status, code, exitCode) => {
    const url = await serve(problem(status, code));
    const failure = await failureOf(clientOf(url).call({ method: 'GET', path: ['x'] }));
    expect(failure).toMatchObject({ exitCode, message: expect.stringMatching(/^What is wrong/) });
  });

  it('ApiClient: exits with 69 when another server answers', async () => {
    const url = await serve((_, response) => response.writeHead(200).end('<html>'));
    expect((await failureOf(clientOf(url).call({ method: 'GET', path: ['x'] }))).exitCode).toBe(69);
  });

  it('ApiClient: exits with 69 on a closed port, with 3 when the process has ended', async () => {
    // Port 1 (tcpmux) has no server and is never assigned.
    const closed = 'http://127.0.0.1:1';
    const call = { method: 'GET', path: ['x'] } as const;
    expect(await failureOf(clientOf(closed).call(call))).toMatchObject({
      exitCode: 69,
      message: expect.stringMatching(/; nothing listens there: start dq, or name another address by --url$/),
    });
    expect((await failureOf(clientOf(closed, process.pid).call(call))).exitCode).toBe(69);
    // Beyond the largest pid of Linux: never a process.
    expect((await failureOf(clientOf(closed, 4_194_305).call(call))).exitCode).toBe(3);
  });

  it('ApiClient: exits with 69 when the connection breaks before the reply', async () => {
    const url = await serve((request) => request.socket.destroy());
    expect((await failureOf(clientOf(url).call({ method: 'GET', path: ['x'] }))).exitCode).toBe(69);
  });
});

describe('sentenceOf', () => {
  const base = {
    status: 400,
    title: 'Invalid request',
    detail: '2 fields are wrong',
    code: 'invalid',
  } as const;

  it('sentenceOf: joins the messages of all fields', () => {
    const errors = [
      { field: 'delay', message: 'is too long' },
      { field: 'mode', message: 'invalid mode' },
    ];
    expect(sentenceOf({ ...base, errors })).toBe('delay: is too long; mode: invalid mode');
  });

  it('sentenceOf: no second mark follows a question mark, and values of a flag count from 1', () => {
    const errors = [
      { field: 'tiemout', message: 'unknown field; did you mean timeout?' },
      { field: 'backoff[1]', message: '"x" has no unit' },
    ];
    expect(sentenceOf({ ...base, errors }, { backoff: '--backoff' })).toBe(
      'tiemout: unknown field; did you mean timeout? --backoff, value 2: "x" has no unit',
    );
  });

  it.each([
    ['topic_not_found', 'there is no topic "x"', [], 'there is no topic "x"; dq topic ls lists the topics'],
    ['topic_not_found', 'no; did you mean y?', [], 'no; did you mean y?'],
    ['job_dead', 'dead', ['v1', 'topics', 't', 'jobs', 'a', 'run'], 'dead: dq dead requeue t --id a'],
    ['job_dead', 'dead', ['v1', 'topics', 't', 'jobs', 'a'], 'dead: dq edit t a --requeue'],
  ] as const)('ApiRefusal: %s, %j names the command with its arguments', (code, detail, path, message) => {
    const { message: said } = new ApiRefusal({ ...base, code, detail, errors: [] }, { path });
    expect(said).toBe(message);
  });

  it('sentenceOf: falls back to the detail; says how to give a token', () => {
    expect(sentenceOf({ ...base, errors: [] })).toBe('2 fields are wrong');
    const rejected = { ...base, code: 'unauthorized' } as const;
    const errors = [{ field: 'authorization', message: 'missing' }];
    expect(sentenceOf({ ...rejected, errors })).toBe('authorization: missing (give --token or DQ_TOKEN)');
    // No token helps at the console's port.
    const session = [{ field: 'session', message: 'missing' }];
    expect(sentenceOf({ ...rejected, errors: session })).toBe('session: missing');
  });
});
