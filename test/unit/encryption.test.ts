import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { SecretCipher } from '../../src/registry/sql/keys/encryption.ts';

const cipher = new SecretCipher(randomBytes(32));

it.each(['', 'a', 'whsec_MDAw', '[{"secret":"订单"}]', 'x'.repeat(100_000)])(
  'decrypts its own text',
  (text) => {
    const encrypted = cipher.encrypt(text, 'order.close');
    expect(encrypted).toMatch(/^v1:[A-Za-z0-9+/]+=*$/);
    expect(cipher.decrypt(encrypted, 'order.close')).toBe(text);
  },
);

it('encryption: each text is different, and none shows its content', () => {
  const encrypted = Array.from({ length: 100 }, () => cipher.encrypt('secret', 'a'));
  expect(new Set(encrypted).size).toBe(100);
  for (const one of encrypted)
    expect(Buffer.from(one.slice(3), 'base64').toString('latin1')).not.toContain('secret');
});

it('encryption: another owner or another key decrypts nothing', () => {
  const encrypted = cipher.encrypt('secret', 'a');
  for (const owner of ['', 'b', 'A', 'aa']) expect(() => cipher.decrypt(encrypted, owner)).toThrow();
  expect(() => new SecretCipher(randomBytes(32)).decrypt(encrypted, 'a')).toThrow();
});

it('encryption: a text with any changed byte is rejected', () => {
  const bytes = Buffer.from(cipher.encrypt('secret', 'a').slice(3), 'base64');
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] as number) ^ 1;
    expect(() => cipher.decrypt(`v1:${changed.toString('base64')}`, 'a'), `byte ${at}`).toThrow();
  }
  for (let length = 0; length < bytes.length; length++)
    expect(() => cipher.decrypt(`v1:${bytes.subarray(0, length).toString('base64')}`, 'a')).toThrow();
});

it('encryption: a plain text is rejected', () => {
  for (const text of ['', '[]', 'v2:AAAA', 'V1:AAAA'])
    expect(() => cipher.decrypt(text, 'a')).toThrow('not encrypted');
});
