// Tests dq sink with signed and unsigned requests.
import { connect } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { runDq, startDqSink } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const other = 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';

/** A callback as dq makes one, signed by the reference library. */
function callback(body: string, by = secret, more: Record<string, string> = {}): RequestInit {
  const now = new Date();
  return {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(now.getTime() / 1_000)),
      'webhook-signature': new Webhook(by).sign('msg_1', now, body),
      'dq-topic': 'order.close',
      'dq-job-id': '%E8%AE%A2%E5%8D%95%2F1',
      'dq-attempt': '2',
      'dq-max-attempts': '10',
      'dq-due-at': new Date(now.getTime() - 40).toISOString(),
      ...more,
    },
  };
}

describe('dq sink', () => {
  it('answers 200 {"code":200} and prints a line for a request', async () => {
    const sink = await startDqSink(['--secret', secret]);
    const reply = await fetch(`${sink.url}/close?a=1`, callback('{"order":"中文"}'));
    expect(reply.status).toBe(200);
    expect(reply.headers.get('content-type')).toBe('application/json');
    expect(await reply.text()).toBe('{"code":200}');
    const line = await until('a line', () => sink.stdout());
    expect(line).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} {2}POST \/close\?a=1 {2}order\.close {2}订单\/1 {2}attempt 2\/10 {2}late \S+ {2}signature ok {2}\{"order":"中文"\}\n$/,
    );
    expect(sink.stderr()).toContain('answers 200 {"code":200}');
  });

  it('sink: distinguishes ok, wrong and not checked signatures', async () => {
    const sink = await startDqSink(['--json', '--secret', `order.close=${secret}`]);
    await fetch(sink.url, callback('1'));
    await fetch(sink.url, callback('1', other));
    await fetch(sink.url, callback('1', secret, { 'webhook-timestamp': '1500000000' }));
    await fetch(sink.url, callback('1', other, { 'dq-topic': 'another' }));
    await until('four lines', () => sink.reports().length === 4);
    expect(sink.reports().map(({ signature }) => signature)).toEqual(['ok', 'wrong', 'wrong', 'not checked']);
    expect(sink.reports()[2]?.['reason']).toContain('5 minutes');
  });

  it('sink --json: reports the request, binary bodies too', async () => {
    const sink = await startDqSink(['--json']);
    await fetch(sink.url, callback('{"n":1}'));
    await fetch(sink.url, { method: 'PUT', body: Buffer.from([0xff, 0x1b]) });
    await until('two lines', () => sink.reports().length === 2);
    expect(sink.reports()[0]).toMatchObject({
      method: 'POST',
      path: '/',
      topic: 'order.close',
      id: '订单/1',
      attempt: 2,
      maxAttempts: 10,
      contentType: 'application/json',
      signature: 'not checked',
      body: '{"n":1}',
    });
    expect(sink.reports()[0]?.['latenessMs']).toBeGreaterThanOrEqual(40);
    expect(sink.reports()[1]).toMatchObject({
      method: 'PUT',
      topic: null,
      latenessMs: null,
      bodyBase64: '/xs=',
    });
  });

  it('sink: sends the configured reply', async () => {
    const sink = await startDqSink(['--status', '503', '--reply', 'busy', '--delay', '30ms']);
    const reply = await fetch(sink.url);
    expect([reply.status, reply.headers.get('content-type'), await reply.text()]).toEqual([
      503,
      'text/plain; charset=utf-8',
      'busy',
    ]);
    const silent = await startDqSink(['--status', '204']);
    const nothing = await fetch(silent.url);
    expect([nothing.status, await nothing.text()]).toEqual([204, '']);
  });

  it('sink: escapes control characters of a request', async () => {
    const sink = await startDqSink();
    await fetch(`${sink.url}/x`, {
      method: 'POST',
      body: 'a\u001b[2Jb\nc',
      headers: { 'dq-topic': 't', 'dq-job-id': '%1b%5b2J' },
    });
    const line = await until('a line', () => sink.stdout());
    expect(line).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
    expect(line.trimEnd().split('\n')).toHaveLength(1);
  });

  it('sink: survives a sender that disconnects', async () => {
    const sink = await startDqSink(['--json']);
    const socket = connect(Number(new URL(sink.url).port), '127.0.0.1');
    await new Promise<void>((resolve) => socket.once('connect', resolve));
    socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc');
    socket.destroy();
    await fetch(sink.url, callback('1'));
    await until('the next request', () => sink.reports().length === 1);
  });

  it('sink: exits with 0 on TERM during a request', async () => {
    const sink = await startDqSink(['--json', '--delay', '1h']);
    const reply = fetch(sink.url, callback('1')).then(
      () => 'answered',
      () => 'cut',
    );
    await until('the request came', () => sink.reports().length === 1);
    expect(await sink.stop()).toBe(0);
    expect(await reply).toBe('cut');
  });

  it('sink: exits with 1 and one sentence when the port is used', async () => {
    const sink = await startDqSink();
    const second = await runDq(['sink', '--port', new URL(sink.url).port]);
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(/^dq: cannot listen: .*EADDRINUSE.*\n$/);
  });

  it.each([
    ['--secret', 'whsec_short'],
    ['--status', '99'],
    ['--port', 'x'],
    ['--delay', '-1s'],
  ])('rejects %s %s: exit 2', async (flag, value) => {
    const run = await runDq(['sink', flag, value]);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(flag);
  });
});
