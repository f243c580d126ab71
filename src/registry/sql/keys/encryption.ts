// Encrypts what must not lie in a database in the clear: the secrets of the topics. AES-256-GCM, each text bound to what it
// belongs to, so that one row's secrets moved into another row are no secrets. Knows the key, no file and no table.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** In front of every sealed text. Another algorithm takes another prefix, and both stay readable. */
const version = 'v1:';
const algorithm = 'aes-256-gcm';
const ivBytes = 12;
const tagBytes = 16;
/** of a key */
export const sealKeyBytes = 32;

export class Sealer {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  /** `v1:` and the base64 of iv, tag and ciphertext. Each call gives another text: 96 random bits a text do not repeat among
   *  the changes of any registry. `of`: what it belongs to; unsealing needs the same. */
  seal(text: string, of: string): string {
    const iv = randomBytes(ivBytes);
    const cipher = createCipheriv(algorithm, this.#key, iv, { authTagLength: tagBytes }).setAAD(
      Buffer.from(of),
    );
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return version + Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64');
  }

  /** Throws for another key, another owner, a changed text, and what was never sealed. */
  unseal(sealed: string, of: string): string {
    if (!isSealed(sealed)) throw new Error('it is not sealed');
    const bytes = Buffer.from(sealed.slice(version.length), 'base64');
    const iv = bytes.subarray(0, ivBytes);
    const tag = bytes.subarray(ivBytes, ivBytes + tagBytes);
    const decipher = createDecipheriv(algorithm, this.#key, iv, { authTagLength: tagBytes })
      .setAAD(Buffer.from(of))
      .setAuthTag(tag);
    return Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]).toString();
  }
}

export function isSealed(text: string): boolean {
  return text.startsWith(version);
}
