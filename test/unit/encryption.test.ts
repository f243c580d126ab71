import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { isSealed, Sealer } from '../../src/registry/sql/keys/encryption.ts';

const sealer = new Sealer(randomBytes(32));

it.each(['', 'a', 'whsec_MDAw', '[{"secret":"订单"}]', 'x'.repeat(100_000)])(
  'unseals what it sealed',
  (text) => {
    const sealed = sealer.seal(text, 'order.close');
    expect(sealed).toMatch(/^v1:[A-Za-z0-9+/]+=*$/);
    expect(isSealed(sealed)).toBe(true);
    expect(sealer.unseal(sealed, 'order.close')).toBe(text);
  },
);

it('each sealed text is another, and none shows what is in it', () => {
  const sealed = Array.from({ length: 100 }, () => sealer.seal('secret', 'a'));
  expect(new Set(sealed).size).toBe(100);
  for (const one of sealed)
    expect(Buffer.from(one.slice(3), 'base64').toString('latin1')).not.toContain('secret');
});

it('nothing is unsealed for another owner, or with another key', () => {
  const sealed = sealer.seal('secret', 'a');
  for (const owner of ['', 'b', 'A', 'aa']) expect(() => sealer.unseal(sealed, owner)).toThrow();
  expect(() => new Sealer(randomBytes(32)).unseal(sealed, 'a')).toThrow();
});

it('a text that was changed in any byte is refused', () => {
  const bytes = Buffer.from(sealer.seal('secret', 'a').slice(3), 'base64');
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] as number) ^ 1;
    expect(() => sealer.unseal(`v1:${changed.toString('base64')}`, 'a'), `byte ${at}`).toThrow();
  }
  for (let length = 0; length < bytes.length; length++)
    expect(() => sealer.unseal(`v1:${bytes.subarray(0, length).toString('base64')}`, 'a')).toThrow();
});

it('what was never sealed is refused', () => {
  for (const text of ['', '[]', 'v2:AAAA', 'V1:AAAA']) {
    expect(isSealed(text)).toBe(false);
    expect(() => sealer.unseal(text, 'a')).toThrow('not sealed');
  }
});
