// The use case of giving a topic a new secret. The old one signs beside it for limits.secretOverlapMs, so that receivers can be
// changed one after the other without refusing a callback.

import { invalidField } from '../core/errors.ts';
import { makeSecret, rotatedSecrets, signingSecrets } from '../core/topic/secrets.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { Registry } from '../ports/registry.ts';
import { changeTopic } from './change-topic.ts';

/** `given`: instead of a new one. `now`: the storage clock, which decides for the notifiers how long the old one signs. Not idempotent: called again it rotates again. */
export function rotateSecret(
  registry: Registry,
  name: string,
  given: string | undefined,
  now: number,
): Promise<Topic> {
  const secret = given ?? makeSecret();
  return changeTopic(registry, name, (known) => {
    // As the current one it would not end, as the old one it would.
    if (signingSecrets(known.secrets, now).includes(secret))
      throw invalidField('secret', 'signs for this topic already; give another one, or none');
    return { ...known, secrets: rotatedSecrets(known.secrets, secret, now) };
  });
}
