// What a job id may be (http-api.md, "Jobs"): 1–256 bytes of well-formed UTF-8 without control characters, compared byte for
// byte, and neither `.` nor `..`, which every URL library resolves away.

import { limits } from './limits.ts';

/** Most ids; none of them is longer in bytes than in characters. */
const plain = /^[A-Za-z0-9_:@+=-][A-Za-z0-9_:@+=.-]{0,255}$/;

/** null = a good id, else what is wrong with it. */
export function refusesId(id: string): string | null {
  if (plain.test(id)) return null;
  if (id === '') return 'must not be empty';
  if (id === '.' || id === '..') return 'must not be "." or ".."';
  if (/\p{Cc}/u.test(id)) return 'must not contain control characters';
  // A lone surrogate has no UTF-8.
  if (/\p{Cs}/u.test(id)) return 'must be well-formed Unicode';
  if (Buffer.byteLength(id) > limits.idBytesMax) return `must be at most ${limits.idBytesMax} bytes of UTF-8`;
  return null;
}
