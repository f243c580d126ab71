// The ids of jobs. An id is 1–256 bytes of well-formed UTF-8 without control characters, compared byte for
// byte. `.` and `..` are invalid: URL libraries resolve them away. The id of a job that a schedule makes
// names its schedule and its instant.

import { limits } from './limits.ts';

/** Most ids. Each of their characters is one byte. */
const plain = /^[A-Za-z0-9_:@+=-][A-Za-z0-9_:@+=.-]{0,255}$/;

/** Whether the id is valid and ASCII without a character that JSON escapes. */
export function isPlainId(id: string): boolean {
  return plain.test(id);
}

/** null = a valid id, else the message. */
export function refusesId(id: string): string | null {
  if (isPlainId(id)) return null;
  if (id === '') return 'must not be empty';
  if (id === '.' || id === '..') return 'must not be "." or ".."';
  if (/\p{Cc}/u.test(id)) return 'must not contain control characters';
  // UTF-8 has no lone surrogates.
  if (/\p{Cs}/u.test(id)) return 'must be well-formed Unicode';
  if (Buffer.byteLength(id) > limits.idBytesMax) return `must be at most ${limits.idBytesMax} bytes of UTF-8`;
  return null;
}

/** The ends of jobs whose ids begin with it are kept for limits.tickHistoryMs also without a history: a
 *  process that takes over an instant looks for them. */
export const tickIdPrefix = 'schedule:';

export const isTickId = (id: string): boolean => id.startsWith(tickIdPrefix);

/** `at`: epoch ms of the instant */
export function tickId(name: string, at: number): string {
  return `${tickIdPrefix}${name}:${new Date(at).toISOString().replace('.000Z', 'Z')}`;
}
