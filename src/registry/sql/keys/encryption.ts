// Encrypts secrets at rest: AES-256-GCM, each text bound to its owner, so that a secret moved to another row
// is invalid. Owns no file and no table.

import { createCipheriv, createDecipheriv } from 'node:crypto';
import { randomBytes } from '../../../runtime/time.ts';

/** Prefix of every encrypted text. Another algorithm gets another prefix, and both stay readable. */
const version = 'v1:';
const algorithm = 'aes-256-gcm';
const ivBytes = 12;
const tagBytes = 16;
/** of a key */
export const secretKeyBytes = 32;

export class SecretCipher {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  /** Returns `v1:` and the base64 of iv, tag and ciphertext. Each call gives another text: 96 random bits per
   *  text do not repeat over the changes of any registry. `owner`: what the text belongs to; decrypt needs
   *  the same. */
  encrypt(text: string, owner: string): string {
    const iv = randomBytes(ivBytes);
    const aes = createCipheriv(algorithm, this.#key, iv, { authTagLength: tagBytes }).setAAD(
      Buffer.from(owner),
    );
    const encrypted = Buffer.concat([aes.update(text, 'utf8'), aes.final()]);
    return version + Buffer.concat([iv, aes.getAuthTag(), encrypted]).toString('base64');
  }

  /** Throws for another key or owner, and for a changed or plain text. */
  decrypt(encrypted: string, owner: string): string {
    if (!encrypted.startsWith(version)) throw new Error('the text is not encrypted');
    const bytes = Buffer.from(encrypted.slice(version.length), 'base64');
    const iv = bytes.subarray(0, ivBytes);
    const tag = bytes.subarray(ivBytes, ivBytes + tagBytes);
    const decipher = createDecipheriv(algorithm, this.#key, iv, { authTagLength: tagBytes })
      .setAAD(Buffer.from(owner))
      .setAuthTag(tag);
    return Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]).toString();
  }
}
