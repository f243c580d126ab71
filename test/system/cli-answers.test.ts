// What commands make of answers that a healthy daemon seldom gives: the API is scripted, the command is real.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { runDq } from '../support/run-dq.ts';

interface Call {
  readonly method: string;
  readonly url: string;
  readonly json: Record<string, unknown>;
}
/** null breaks the connection */
type Answer = (call: Call, number: number) => { status: number; json: object } | null;

async function scriptedApi(answer: Answer): Promise<{ url: string; calls: Call[] }> {
  const calls: Call[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const call = {
        method: request.method ?? '',
        url: request.url ?? '',
        json: text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {},
      };
      calls.push(call);
      const reply = answer(call, calls.filter(({ method }) => method === call.method).length);
      if (reply === null) request.socket.destroy();
      else response.writeHead(reply.status).end(JSON.stringify(reply.json));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls };
}

function problem(status: number, code: string, more: object = {}): { status: number; json: object } {
  return { status, json: { title: 'Title', status, detail: 'Store away', code, errors: [], ...more } };
}

describe('dq dead requeue', () => {
  const page = { status: 200, json: { items: [{ deadAt: '2030-01-01T00:00:00.999Z' }], nextCursor: null } };

  it('goes on while there is more, and never to letters younger than those it found', async () => {
    const api = await scriptedApi(({ method }, number) =>
      method === 'GET' ? page : { status: 200, json: { requeued: 10, more: number < 3 } },
    );
    const run = await runDq(['dead', 'requeue', '--topic', 't', '--url', api.url]);
    expect(run).toMatchObject({ code: 0, stdout: '' });
    expect(run.stderr).toContain('dq: 20 requeued, more to come\n');
    expect(run.stderr).toMatch(/dq: 30 requeued\n$/);
    const filters = api.calls.filter(({ method }) => method === 'POST').map(({ json }) => json);
    expect(filters).toEqual(Array(3).fill({ topic: 't', until: '2030-01-01T00:00:01.000Z' }));
  });

  it('ends with 5 when it fails on the way, and says how far it came', async () => {
    const api = await scriptedApi(({ method }, number) => {
      if (method === 'GET') return page;
      return number === 1 ? { status: 200, json: { requeued: 10, more: true } } : problem(503, 'unavailable');
    });
    const run = await runDq(['dead', 'requeue', '--all', '--url', api.url]);
    expect(run.code).toBe(5);
    expect(run.stderr).toContain('10 requeued, then: Store away');
  });

  it('ends with 1 when it fails at once', async () => {
    const api = await scriptedApi(({ method }) => (method === 'GET' ? page : problem(503, 'unavailable')));
    expect((await runDq(['dead', 'requeue', '--all', '--url', api.url])).code).toBe(1);
  });
});

describe('dq push without a clear answer', () => {
  it('tells the id that was made, so that the repeat is safe', async () => {
    const api = await scriptedApi(() => problem(503, 'unknown', { id: 'made-1' }));
    const run = await runDq(['push', 't', '1', '--url', api.url]);
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toContain('--id made-1');
  });

  it('says that nobody knows when the connection breaks, and ends with 69', async () => {
    const api = await scriptedApi(() => null);
    const made = await runDq(['push', 't', '1', '--url', api.url]);
    expect(made).toMatchObject({ code: 69, stdout: '' });
    expect(made.stderr).toContain('is not known');
    expect(made.stderr).toContain('second job');
    const given = await runDq(['push', 't', '1', '--id', 'x', '--url', api.url]);
    expect(given.stderr).toContain('with this --id is safe');
  });

  it('does not say so when nothing was sent', async () => {
    const run = await runDq(['push', 't', '1', '--url', 'http://127.0.0.1:1']);
    expect(run.code).toBe(69);
    expect(run.stderr).not.toContain('known');
  });
});

it('dq cancel says when an attempt is still running', async () => {
  const api = await scriptedApi(() => ({ status: 200, json: { cancelled: true, inFlight: true } }));
  const run = await runDq(['cancel', 't', 'x', '--url', api.url]);
  expect(run).toMatchObject({ code: 0, stdout: '' });
  expect(run.stderr).toContain('may still finish');
});

it('dq get lets no control character of a body or a reply through to the terminal', async () => {
  const clear = '\u001b[2J';
  const attempt = {
    attempt: 1,
    startedAt: 'then',
    durationMs: 1,
    outcome: 'failed',
    status: 500,
    reason: 'status',
  };
  const job = {
    ...{ topic: 't', id: 'x', version: '1', state: 'delayed', dueAt: 'then', createdAt: 'then', attempt: 1 },
    ...{ maxAttempts: 10, contentType: 'text/plain', body: `body${clear}` },
    attempts: [{ ...attempt, replyExcerpt: `reply${clear}`, notifier: 'dq-notifier-0', host: 'h' }],
  };
  const api = await scriptedApi(() => ({ status: 200, json: job }));
  const shown = await runDq(['get', 't', 'x', '--url', api.url]);
  expect(shown.stdout).toContain('reply\\u001b[2J');
  expect(shown.stdout).not.toContain('\u001b');
  expect((await runDq(['get', 't', 'x', '--url', api.url, '--body'])).stdout).toBe(job.body);
});
