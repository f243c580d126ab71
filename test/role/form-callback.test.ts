// Tests format form over real sockets: the requests that a receiver of php-delayqueue gets, and their
// signature.
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { secret, startRig, startTopic } from './rig.ts';

const timezone = 'Asia/Shanghai';
const localTime = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/;
/** The local time in Shanghai, whose offset never changes. */
const shown = (epochMs: number) =>
  new Date(epochMs + 8 * 3_600_000).toISOString().slice(0, 19).replace('T', ' ');

function verified(
  arrival: { readonly body: Buffer; readonly headers: object },
  body = arrival.body,
): boolean {
  try {
    // The library parses JSON after it has verified; the signed text here is not JSON.
    new Webhook(secret).verify(body, arrival.headers as Record<string, string>);
  } catch (error) {
    return error instanceof SyntaxError;
  }
  return true;
}

describe('form', () => {
  it('each attempt has members, times and failures, signed over its bytes', async () => {
    const rig = await startRig();
    const sink = await startSink(status(500, {}, 'x'));
    await rig.topic('t', `${sink.url}cb?x=1`, {
      format: 'form',
      maxAttempts: 3,
      backoff: { type: 'ladder', stepsMs: [1_100] },
    });
    await rig.push('t', 'a', { body: Buffer.from('{"n":9007199254740993, "s":"a b","notify_time":"x"}') });
    const job = await rig.store.jobs.get({ topic: 't', id: 'a' });
    await rig.run(createNotifier(rig.context({ config: { timezone } })));
    // No timer runs in this rig: promote() makes the retry ready.
    await until('burial', async () => {
      await rig.store.jobs.promote(0, 10);
      return (await rig.store.jobs.get({ topic: 't', id: 'a' }))?.state === 'dead';
    });
    const fields = sink.arrivals.map(({ body }) => Object.fromEntries(new URLSearchParams(body.toString())));
    const accepted = shown(job?.acceptedAt ?? 0);
    expect(fields).toEqual([
      { n: '9007199254740993', s: 'a b', notify_time: shown(job?.dueAt ?? 0), dq_set_time: accepted },
      ...['1', '2'].map((failed) => ({
        n: '9007199254740993',
        s: 'a b',
        notify_time: expect.stringMatching(localTime),
        dq_set_time: accepted,
        exp_notify_nums: failed,
      })),
    ]);
    for (const [n, arrival] of sink.arrivals.entries()) {
      expect(arrival.headers['content-type']).toBe('application/x-www-form-urlencoded');
      expect(arrival.path).toBe('/cb?x=1');
      expect(fields[n]?.['notify_time']).toBe(shown(Date.parse(String(arrival.headers['dq-due-at']))));
      expect(verified(arrival)).toBe(true);
      expect(verified(arrival, Buffer.concat([arrival.body, Buffer.from('&')]))).toBe(false);
    }
    expect(new Set(fields.map((one) => one['notify_time'])).size).toBe(3);
  });

  it('GET: everything is in the query, and the empty body is signed', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', `${sink.url}cb?key=k%20k`, { format: 'form', method: 'GET' });
    await rig.push('t', 'a', { body: Buffer.from('{"q":"a&b","l":[1]}') });
    await rig.run(createNotifier(rig.context({ config: { timezone } })));
    await until('the delivery', () => rig.counted('t', 'delivered') === 1);
    const [arrival] = sink.arrivals;
    expect(arrival?.path).toMatch(
      /^\/cb\?key=k%20k&q=a%26b&l=%5B1%5D&notify_time=[\d%AC-]+&dq_set_time=[\d%AC-]+$/,
    );
    expect(arrival?.body).toHaveLength(0);
    expect(arrival?.headers).not.toHaveProperty('content-type');
    expect(arrival?.headers).not.toHaveProperty('transfer-encoding');
    expect(arrival && verified(arrival)).toBe(true);
  });

  it('a job pushed before the topic had format form has the times alone', async () => {
    const { rig, sink } = await startTopic();
    await rig.push('t', 'a', { body: Buffer.from([0xff, 0x00]), contentType: 'image/png' });
    await rig.topic('t', sink.url, { format: 'form' });
    await rig.run(createNotifier(rig.context({ config: { timezone } })));
    await until('the delivery', () => rig.counted('t', 'delivered') === 1);
    expect([...new URLSearchParams(sink.arrivals[0]?.body.toString()).keys()]).toEqual([
      'notify_time',
      'dq_set_time',
    ]);
    expect(sink.arrivals[0]?.headers['content-type']).toBe('application/x-www-form-urlencoded');
  });
});
