// Prepares the heads of replies for undici, which rejects some that receivers send: drops `100 Continue`,
// which needs no request for it (RFC 9110 15.2), and unfolds header lines (RFC 9112 5.2). Invariant: every
// other byte passes unchanged and in order, and undici judges it. A head is held until it is whole, at most
// notifierLimits.replyHeadBytesMax of it.

import { notifierLimits } from './limits.ts';

const nothing = Buffer.alloc(0);
const headEnd = '\r\n\r\n';
const informational = /^HTTP\/1\.[01] 1[0-9][0-9][ \r]/;
const bareLineFeed = /[^\r]\n/;
const folded = /\r\n[ \t]+/g;

export class ReplyHeads {
  /** The next bytes belong to a head. */
  #isHead = false;
  /** the beginning of a head */
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** A byte has arrived since expect(). */
  hasBegun = false;

  /** A request is written; its reply begins with the next byte. */
  expect(): void {
    this.#isHead = true;
    this.#held = [];
    this.#heldBytes = 0;
    this.hasBegun = false;
  }

  /** Returns the bytes for undici; none while a head is incomplete. */
  pass(chunk: Buffer): Buffer {
    if (!this.#isHead) return chunk;
    this.hasBegun = true;
    if (this.#staysIncomplete(chunk)) {
      this.#hold(chunk);
      return nothing;
    }
    let left: Buffer = this.#held.length === 0 ? chunk : Buffer.concat([...this.#held, chunk]);
    this.#held = [];
    this.#heldBytes = 0;
    const parts: Buffer[] = [];
    while (this.#isHead && left.length > 0) {
      const end = left.indexOf(headEnd, 0, 'latin1');
      if (end < 0) {
        this.#isHead = mayBecomeHead(left);
        if (!this.#isHead) break;
        this.#hold(left);
        left = nothing;
        break;
      }
      const head = left.subarray(0, end + headEnd.length);
      const statusLine = head.toString('latin1', 0, 13);
      this.#isHead = informational.test(statusLine);
      if (!this.#isHead || statusLine.slice(9, 12) !== '100') parts.push(unfolded(head));
      left = left.subarray(head.length);
    }
    if (left.length > 0) parts.push(left);
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  }

  #hold(chunk: Buffer): void {
    this.#held.push(chunk);
    this.#heldBytes += chunk.length;
  }

  /** Looks at the new bytes only: a head may come byte by byte. */
  #staysIncomplete(chunk: Buffer): boolean {
    const last = this.#held.slice(-3);
    if (last.length === 0 || this.#heldBytes + chunk.length > notifierLimits.replyHeadBytesMax) return false;
    const seam = Buffer.concat([Buffer.concat(last).subarray(-3), chunk]).toString('latin1');
    return this.#heldBytes >= start.length && !seam.includes(headEnd) && !bareLineFeed.test(seam);
  }
}

const start = 'HTTP/1.';

/** false: undici rejects it anyway, or it is too long. */
function mayBecomeHead(bytes: Buffer): boolean {
  if (bytes.length > notifierLimits.replyHeadBytesMax) return false;
  const text = bytes.toString('latin1');
  return text.startsWith(start.slice(0, text.length)) && !bareLineFeed.test(text);
}

/** A line that begins with a blank after the status line stays: undici rejects it. */
function unfolded(head: Buffer): Buffer {
  if (!head.includes('\r\n ') && !head.includes('\r\n\t')) return head;
  const text = head.toString('latin1');
  const lines = text.indexOf('\r\n') + 2;
  if (text[lines] === ' ' || text[lines] === '\t') return head;
  return Buffer.from(text.replace(folded, ' '), 'latin1');
}
