// The secrets of `dq sink`: `whsec_…` for every topic, `TOPIC=whsec_…` for one, `trial` for either.
// Signatures of a topic without a secret are not checked.

import { topicNamePattern } from '../core/topic/fields.ts';
import { keyOf } from './signature-check.ts';
import { trialSecret, trialWord } from './trial-secret.ts';

export class SinkKeys {
  readonly #forAll: Buffer[] = [];
  readonly #byTopic = new Map<string, Buffer[]>();

  /** Returns the error of the text, or null. */
  add(text: string): string | null {
    const equals = text.indexOf('=');
    const named = equals > 0 && !text.startsWith('whsec_');
    const topic = named ? text.slice(0, equals) : null;
    const secret = named ? text.slice(equals + 1) : text;
    if (topic !== null && !topicNamePattern.test(topic)) return `invalid topic name "${topic}"`;
    const key = keyOf(secret === trialWord ? trialSecret : secret);
    if (key === null)
      return 'a secret is whsec_ and base64 of 24 to 64 bytes, TOPIC=whsec_…, or the word trial';
    if (topic === null) this.#forAll.push(key);
    else this.#byTopic.set(topic, [...(this.#byTopic.get(topic) ?? []), key]);
    return null;
  }

  of(topic: string | null): readonly Buffer[] {
    return [...(topic === null ? [] : (this.#byTopic.get(topic) ?? [])), ...this.#forAll];
  }
}
