// Tests dq sink: its lines, its replies, its end. The verdicts on signatures are in
// test/unit/sink-signature.test.ts.
import { connect } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { runDq, runDqHere, startDqSink } from '../support/run-dq.ts';
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
  it('prints a line for a request, answers as configured, and ends with 0 on TERM during a request', async () => {
    const sink = await startDqSink(['--secret', secret, '--delay', '1ms']);
    const reply = await fetch(`${sink.url}/close?a=1`, callback('{"order":"中文"}'));
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'application/json']);
    expect(await reply.text()).toBe('{"code":200}');
    expect(await until('a line', () => sink.stdout())).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} {2}POST \/close\?a=1 {2}order\.close {2}订单\/1 {2}attempt 2\/10 {2}late \S+ {2}signature ok {2}\{"order":"中文"\}\n$/,
    );
    expect(sink.stderr()).toContain('answers 200 {"code":200}');

    // Control characters of a request reach no terminal.
    const headers = { 'dq-topic': 't', 'dq-job-id': '%1b%5b2J' };
    await fetch(`${sink.url}/x`, { method: 'POST', body: 'a\u001b[2Jb\nc', headers });
    const lines = await until('the second line', () => {
      const all = sink.stdout().trimEnd().split('\n');
      return all.length === 2 ? all : null;
    });
    expect(lines[1]).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);

    const second = await runDq(['sink', '--port', new URL(sink.url).port]);
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(/^dq: cannot listen: .*EADDRINUSE.*\n$/);
    expect(await sink.stop()).toBe(0);
  });

  it('--json: reports each request, whatever its body, its signature and its end', async () => {
    const sink = await startDqSink([
      ...['--json', '--secret', `order.close=${secret}`, '--status', '503', '--reply', 'busy'],
    ]);
    const cut = connect(Number(new URL(sink.url).port), '127.0.0.1');
    await new Promise<void>((resolve) => cut.once('connect', resolve));
    cut.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc');
    cut.destroy();
    const reply = await fetch(sink.url, callback('{"n":1}'));
    expect([reply.status, reply.headers.get('content-type'), await reply.text()]).toEqual([
      ...[503, 'text/plain; charset=utf-8', 'busy'],
    ]);
    await fetch(sink.url, callback('1', other));
    await fetch(sink.url, callback('1', secret, { 'webhook-timestamp': '1500000000' }));
    await fetch(sink.url, callback('1', other, { 'dq-topic': 'another' }));
    await fetch(sink.url, { method: 'PUT', body: Buffer.from([0xff, 0x1b]) });
    await until('all lines', () => sink.reports().length === 5);
    const reports = sink.reports();
    expect(reports.map(({ signature }) => signature)).toEqual([
      ...['ok', 'wrong', 'wrong', 'not checked', 'not checked'],
    ]);
    expect(reports[2]?.['reason']).toContain('5 minutes');
    expect(reports[0]).toMatchObject({
      ...{ method: 'POST', path: '/', topic: 'order.close', id: '订单/1', attempt: 2, maxAttempts: 10 },
      ...{ contentType: 'application/json', body: '{"n":1}' },
    });
    expect(reports[0]?.['latenessMs']).toBeGreaterThanOrEqual(40);
    expect(reports[4]).toMatchObject({ method: 'PUT', topic: null, latenessMs: null, bodyBase64: '/xs=' });
  });

  it('rejects wrong options with 2', async () => {
    for (const [flag, value] of [
      ['--secret', 'whsec_short'],
      ['--status', '99'],
      ['--port', 'x'],
      ['--delay', '-1s'],
    ] as const) {
      const run = await runDqHere(['sink', flag, value]);
      expect([run.code, run.stderr]).toEqual([2, expect.stringContaining(flag)]);
    }
  });
});
