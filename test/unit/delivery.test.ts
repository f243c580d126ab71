// Tests the headers, ids and signatures of callbacks, and the rotation of secrets.
import { createHmac } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { callbackHeaders, signatureHeader, webhookIdOf } from '../../src/core/delivery.ts';
import { extensionOf } from '../../src/core/extension.ts';
import {
  makeSecret,
  parseSecret,
  rotatedSecrets,
  signingSecrets,
  type TopicSecret,
} from '../../src/core/topic/secrets.ts';

const job = {
  ...{
    topic: 'order.close',
    id: '订单 1/%.:',
    origin: 1_767_225_600_000_123,
    dueAt: Date.UTC(2026, 0, 1, 9),
  },
  ...{ failures: 2, contentType: 'application/json; charset=utf-8' },
};
const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
const older = `whsec_${Buffer.alloc(64, 9).toString('base64')}`;
const topic = { headers: {}, maxAttempts: 10, secrets: [{ secret, untilAt: null }] };
const body = Buffer.from('{"名":"值"}');
const headersAt = (
  nowMs: number,
  more: object = {},
  other: Partial<typeof job> | { contentType: null } = {},
) => callbackHeaders({ ...job, ...other }, { ...topic, ...more }, { nowMs, body, version: '1.2.3' });

describe('webhookIdOf', () => {
  it('webhook-id: never changes, because receivers remember it', () => {
    expect(webhookIdOf({ topic: 't', id: '1', origin: 5 })).toBe('msg_f3bfvr5vuvo898fvhvoqj7pno');
  });

  it('webhook-id: of an edited job derives from the origin before its edits', () => {
    const edited = { ...job, origin: 9, extension: extensionOf({ webhookOrigin: 5 }) ?? undefined };
    expect(webhookIdOf(edited)).toBe(webhookIdOf({ ...job, origin: 5 }));
  });

  it('webhook-id: has no dot and no text of the user', () => {
    for (let origin = 0; origin < 2_000; origin++)
      expect(webhookIdOf({ ...job, origin })).toMatch(/^msg_[0-9a-z]{25}$/);
  });

  it('webhook-id: differs for every topic, id and origin', () => {
    const ids = [
      { topic: 'a', id: 'b', origin: 1 },
      { topic: 'ab', id: '', origin: 1 },
      { topic: 'a', id: 'b', origin: 11 },
      { topic: 'a', id: '1b', origin: 1 },
      { topic: 'a', id: '\0b', origin: 1 },
      { topic: 'A', id: 'b', origin: 1 },
    ].map(webhookIdOf);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('signature', () => {
  const now = () => Math.floor(Date.now() / 1000) * 1000;

  it('signature: the Standard Webhooks library accepts it and rejects a changed byte', () => {
    const headers = headersAt(now());
    const receiver = new Webhook(secret);
    expect(receiver.verify(body.toString(), headers)).toEqual({ 名: '值' });
    expect(() => receiver.verify(`${body.toString()} `, headers)).toThrow(/signature/);
    expect(() => receiver.verify(body.toString(), { ...headers, 'webhook-id': 'msg_x' })).toThrow(
      /signature/,
    );
  });

  it('signature: covers the raw bytes', () => {
    const bytes = Buffer.from([0xff, 0x00, 0xfe]);
    // printf 'id.1.\xff\x00\xfe' | openssl dgst -sha256 -mac HMAC -macopt hexkey:07…07 -binary | base64
    expect(signatureHeader([secret], 'id', 1, bytes)).toBe('v1,n0f77JZ9KBuGgV8NtTn8G4FmsXETaZbaLUPPt9kfWrQ=');
  });

  it('signature: the HMAC of any key and text, in any order', () => {
    const dice = new Dice(1);
    const bytes = (length: number) => Buffer.from(Array.from({ length }, () => dice.below(256)));
    const keys = [24, 25, 32, 63, 64, 65, 200].map(bytes);
    const lengths = [0, 1, 54, 55, 56, 8_186, 8_187, 8_188, 8_189, 20_000];
    for (let n = 0; n < 200; n += 1) {
      const used = [dice.pick(keys), dice.pick(keys)];
      const text = bytes(dice.pick(lengths));
      const macs = used.map(
        (key) => `v1,${createHmac('sha256', key).update('i.7.').update(text).digest('base64')}`,
      );
      const secrets = used.map((key) => `whsec_${key.toString('base64')}`);
      expect(signatureHeader(secrets, 'i', 7, text)).toBe(macs.join(' '));
    }
  });

  it('signature: right for more secrets than are kept', () => {
    const keys = Array.from({ length: 1_100 }, (_, n) => Buffer.alloc(24, `key ${n}`));
    for (const key of [...keys, ...keys.slice(0, 3)])
      expect(signatureHeader([`whsec_${key.toString('base64')}`], 'i', 7, body)).toBe(
        `v1,${createHmac('sha256', key).update('i.7.').update(body).digest('base64')}`,
      );
  });

  it('signature: both secrets during a rotation, then the new one only', () => {
    const at = now();
    const secrets = [
      { secret, untilAt: null },
      { secret: older, untilAt: at + 1 },
    ];
    const during = headersAt(at, { secrets });
    for (const each of [secret, older]) {
      expect(new Webhook(each).verify(body.toString(), during)).toEqual({ 名: '值' });
    }
    expect(during['webhook-signature']).toMatch(/^v1,\S{44} v1,\S{44}$/);
    const after = headersAt(at + 1, { secrets });
    expect(new Webhook(secret).verify(body.toString(), after)).toEqual({ 名: '值' });
    expect(() => new Webhook(older).verify(body.toString(), after)).toThrow(/signature/);
    expect(signingSecrets(secrets, at + 1)).toEqual([secret]);
  });
});

describe('callbackHeaders', () => {
  it('headers: the documented ones', () => {
    expect(headersAt(1_767_258_000_999)).toEqual({
      ...{ 'content-type': 'application/json; charset=utf-8', 'accept-encoding': 'identity' },
      ...{ 'user-agent': 'dq/1.2.3', 'webhook-id': webhookIdOf(job), 'webhook-timestamp': '1767258000' },
      'webhook-signature': signatureHeader([secret], webhookIdOf(job), 1_767_258_000, body),
      ...{ 'dq-topic': 'order.close', 'dq-job-id': '%E8%AE%A2%E5%8D%95%201%2F%25.%3A', 'dq-attempt': '3' },
      ...{ 'dq-max-attempts': '10', 'dq-due-at': '2026-01-01T09:00:00.000Z' },
    });
  });

  it('headers: no content type without a pushed one', () => {
    expect(headersAt(0, {}, { contentType: null })).not.toHaveProperty('content-type');
  });

  it("headers: the topic's replace neither dq's nor the pushed content type", () => {
    const own = {
      ...{ 'x-key': 'k', 'content-type': 'text/plain', 'user-agent': 'me', 'accept-encoding': 'gzip' },
      'dq-attempt': '9',
    };
    const { 'x-key': key, ...rest } = headersAt(0, { headers: own });
    expect(key).toBe('k');
    expect(rest).toEqual(headersAt(0));
    expect(headersAt(0, { headers: own }, { contentType: null })['content-type']).toBe('text/plain');
  });

  it('headers: attempts share the id and differ in the timestamp', () => {
    const first = headersAt(1_000, {}, { failures: 0 });
    const second = headersAt(61_000, {}, { failures: 1 });
    expect(second['webhook-id']).toBe(first['webhook-id']);
    expect([first['webhook-timestamp'], second['webhook-timestamp']]).toEqual(['1', '61']);
    expect([first['dq-attempt'], second['dq-attempt']]).toEqual(['1', '2']);
  });
});

describe('rotatedSecrets', () => {
  const day = 24 * 3_600_000;
  const at = 1_000_000;

  it('rotation: the new secret comes first, the old one signs for 24 h', () => {
    const rotated = rotatedSecrets([{ secret: 'a', untilAt: null }], 'b', at);
    expect(rotated).toEqual([
      { secret: 'b', untilAt: null },
      { secret: 'a', untilAt: at + day },
    ]);
    expect(signingSecrets(rotated, at + day - 1)).toEqual(['b', 'a']);
    expect(signingSecrets(rotated, at + day)).toEqual(['b']);
  });

  it('rotation: keeps the end of older secrets and drops expired ones', () => {
    const secrets = [
      { secret: 'c', untilAt: null },
      { secret: 'b', untilAt: at + 1 },
      { secret: 'a', untilAt: at },
    ];
    expect(rotatedSecrets(secrets, 'd', at)).toEqual([
      { secret: 'd', untilAt: null },
      { secret: 'c', untilAt: at + day },
      { secret: 'b', untilAt: at + 1 },
    ]);
  });

  it('rotation: an old secret becomes the current one again, and signs once', () => {
    const secrets = [
      { secret: 'b', untilAt: null },
      { secret: 'a', untilAt: at + 1 },
    ];
    expect(rotatedSecrets(secrets, 'a', at)).toEqual([
      { secret: 'a', untilAt: null },
      { secret: 'b', untilAt: at + day },
    ]);
  });

  it('rotation: at most four secrets sign; the oldest are dropped', () => {
    let secrets: readonly TopicSecret[] = [{ secret: 's0', untilAt: null }];
    for (let n = 1; n <= 6; n++) secrets = rotatedSecrets(secrets, `s${n}`, at + n);
    expect(signingSecrets(secrets, at + 6)).toEqual(['s6', 's5', 's4', 's3']);
  });
});

describe('secrets', () => {
  const ofBytes = (n: number) => `whsec_${Buffer.alloc(n, 255).toString('base64')}`;

  it('made secrets are valid and differ', () => {
    const made = Array.from({ length: 100 }, makeSecret);
    for (const each of made) expect(parseSecret(each)).toEqual({ ok: true, value: each });
    expect(new Set(made).size).toBe(100);
  });

  it.each([24, 25, 64])('secrets of %i bytes are valid', (n) => {
    expect(parseSecret(ofBytes(n)).ok).toBe(true);
  });

  it.each([
    ofBytes(23),
    ofBytes(65),
    ofBytes(24).slice(6),
    ofBytes(25).replace(/=+$/, ''),
    `${ofBytes(24)}=`,
    `${ofBytes(24)}\n`,
    ofBytes(24).replace('/', '_'),
    ofBytes(24).replace('whsec_', 'WHSEC_'),
    'whsec_',
    '',
    null,
    5,
  ])('%j is rejected without repeating it', (input) => {
    const parsed = parseSecret(input);
    expect(parsed).toEqual({ ok: false, message: 'must be whsec_ and the padded base64 of 24 to 64 bytes' });
  });
});
