// Tests the signature check of dq sink.
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import {
  checkSignature,
  isLocalCallback,
  keyOf,
  SinkKeys,
  trialSecret,
} from '../../src/sink/signature-check.ts';
import { words } from '../support/words.ts';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const other = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const key = keyOf(secret) as Buffer;
const now = 1_800_000_000_000;

function signed(body = '{"n":1}', at = now, by = secret) {
  const time = new Date(at);
  return {
    id: 'msg_1',
    timestamp: String(Math.floor(at / 1_000)),
    signature: new Webhook(by).sign('msg_1', time, body),
    body: Buffer.from(body),
  };
}

describe('checkSignature', () => {
  it('accepts signatures of the reference library', () => {
    expect(checkSignature(signed(), [key], now)).toEqual({ signature: 'ok' });
    expect(checkSignature(signed('中文 ü'), [key], now)).toEqual({ signature: 'ok' });
    expect(checkSignature(signed(''), [key], now)).toEqual({ signature: 'ok' });
  });

  it('accepts either of two signatures and either of two keys', () => {
    const request = signed();
    const two = `${signed('{"n":1}', now, other).signature} ${request.signature}`;
    expect(checkSignature({ ...request, signature: two }, [key], now).signature).toBe('ok');
    expect(checkSignature(request, [keyOf(other) as Buffer, key], now).signature).toBe('ok');
  });

  it.each([
    ['another body', { body: Buffer.from('{"n":2}') }],
    ['another id', { id: 'msg_2' }],
    ['another time', { timestamp: String(now / 1_000 + 1) }],
    ['no signature', { signature: undefined }],
    ['no id', { id: undefined }],
    ['no time', { timestamp: undefined }],
    ['a time with a fraction', { timestamp: '1800000000.5' }],
    ['another scheme', { signature: signed().signature.replace('v1,', 'v1a,') }],
    ['half a signature', { signature: signed().signature.slice(0, 20) }],
  ])('rejects %s', (_, change) => {
    expect(checkSignature({ ...signed(), ...change }, [key], now).signature).toBe('wrong');
  });

  it('rejects another secret', () => {
    expect(checkSignature(signed(), [keyOf(other) as Buffer], now).signature).toBe('wrong');
  });

  it('rejects a time more than five minutes from now, either way', () => {
    expect(checkSignature(signed('x', now - 299_000), [key], now).signature).toBe('ok');
    expect(checkSignature(signed('x', now - 301_000), [key], now).signature).toBe('wrong');
    expect(checkSignature(signed('x', now + 301_000), [key], now).signature).toBe('wrong');
  });

  it('checks nothing without a key', () => {
    expect(checkSignature(signed(), [], now)).toEqual({ signature: 'not checked' });
  });
});

describe('keyOf', () => {
  it.each([
    ...words`MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_ whsec_c2hvcnQ= whsec_MfKQ9r8GKYqrTwjUPD8ILPZI-2LaLaSw`,
    ` ${secret}`,
    `whsec_${Buffer.alloc(65).toString('base64')}`,
  ])('rejects %j', (text) => {
    expect(keyOf(text)).toBeNull();
  });
});

describe('SinkKeys', () => {
  it('holds a secret for every topic, or for one', () => {
    const keys = new SinkKeys();
    expect(keys.add(`order.close=${secret}`)).toBeNull();
    expect(keys.of('order.close')).toHaveLength(1);
    expect(keys.of('other')).toHaveLength(0);
    expect(keys.of(null)).toHaveLength(0);
    expect(keys.add(other)).toBeNull();
    expect(keys.of('other')).toHaveLength(1);
    expect(keys.of('order.close')).toHaveLength(2);
  });

  it('reads padding as part of the secret', () => {
    expect(new SinkKeys().add(other)).toBeNull();
    expect(other).toContain('=');
  });

  it('knows the word trial', () => {
    const keys = new SinkKeys();
    expect(keys.add('trial')).toBeNull();
    expect(checkSignature(signed('x', now, trialSecret), keys.of('any'), now).signature).toBe('ok');
  });

  it.each(['secret', 'whsec_short', 'a b=trial', '=trial', 'order='])('rejects %j', (text) => {
    expect(new SinkKeys().add(text)).not.toBeNull();
  });
});

describe('isLocalCallback', () => {
  it.each([
    ['http://127.0.0.1:9000/', true],
    ['http://127.8.9.1/', true],
    ['http://localhost:9000/x', true],
    ['http://[::1]:9000/', true],
    ['http://127.0.0.1.example.org/', false],
    ['http://10.0.0.1/', false],
    ['http://localhost.example.org/', false],
    ['nonsense', false],
  ])('%s: %s', (url, local) => {
    expect(isLocalCallback(url)).toBe(local);
  });
});
