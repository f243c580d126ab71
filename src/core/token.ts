// Access tokens: making, recognising, and checking rights. Pure but for the random bytes.
// dq keeps the digest of a token only and writes the token nowhere.

import { createHash, timingSafeEqual } from 'node:crypto';
import { randomBytes } from '../runtime/time.ts';
import { limits } from './limits.ts';

/** push: pushes, cancel · pull: pulling, ack, nack, extend · read: every GET · operate: pause, run, requeue,
 *  purge, reschedule · admin: topics, tokens and all the rest. admin includes the others; the others include
 *  nothing else. */
export const scopes = ['push', 'pull', 'read', 'operate', 'admin'] as const;
export type Scope = (typeof scopes)[number];

/** Rights of a caller. */
export interface Rights {
  readonly scopes: readonly Scope[];
  /** topic names; `*` matches any characters: `order.*` */
  readonly topics: readonly string[];
}

/** A caller that dq knows, with its rights. */
export interface Caller extends Rights {
  /** for people: name of the token or of the session, `this machine`, `dq CLI` */
  readonly name: string;
  /** readable part of the access token that the rights come from; null: from none */
  readonly tokenId: string | null;
  /** admitted without a token, or its session was */
  readonly isThisMachine?: true;
  /** its session began with a sign-in link */
  readonly isByLink?: true;
  /** absent: it calls without a session of the console */
  readonly sessionId?: string;
}

export interface TokenRecord extends Rights {
  /** unique, chosen by an administrator */
  readonly name: string;
  /** the readable part of the token, which finds its record */
  readonly id: string;
  /** SHA-256 of the whole token, hexadecimal */
  readonly digest: string;
  /** epoch ms */
  readonly createdAt: number;
  /** epoch ms; null: it does not end */
  readonly expiresAt: number | null;
  /** of the last use that was recorded, epoch ms; null: none is known */
  readonly usedAt: number | null;
}

/** Uses of tokens to record: the readable part of each, and the time. */
export interface TokenUse {
  readonly id: string;
  /** epoch ms */
  readonly usedAt: number;
}

export const tokenNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
/** The user of the system who runs a command. */
export const userNamePattern = /^[\w.@-]{1,32}$/;
export const everyTopic = '*';
const all = { scopes: ['admin'], topics: [everyTopic], tokenId: null } as const;
export const allRights: Caller = { ...all, name: 'this machine', isThisMachine: true };
/** All rights, as a value of its own: of the token of this start, which only the daemon's user can read. */
export const ownerRights: Caller = { ...all, name: 'dq CLI' };
export const noRights: Caller = { scopes: [], topics: [], name: '', tokenId: null };

const prefix = 'dqk_';
const tokenPattern = /^dqk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;

/** `dqk_<id>_<256 bits>`. Lists show the id, so that a found token can be identified. */
export function makeToken(): { readonly token: string; readonly id: string; readonly digest: string } {
  const id = randomBytes(limits.tokenIdBytes).toString('hex');
  const token = `${prefix}${id}_${randomBytes(limits.tokenBytes).toString('base64url')}`;
  return { token, id, digest: digestOf(token).toString('hex') };
}

/** null = dq cannot have made this token. */
export function tokenIdOf(text: string): string | null {
  return tokenPattern.exec(text)?.[1] ?? null;
}

export function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Compares in constant time. All digests have the same length. */
export function isSameDigest(given: Buffer, known: Buffer): boolean {
  return timingSafeEqual(given, known);
}

/** Names the client of a call, to count what it uses: its token, or its address. */
export function clientOf(rights: Rights, address: string | undefined): string {
  const { tokenId = null } = rights as Partial<Caller>;
  return tokenId ?? address ?? '';
}

export function grants(rights: Rights, scope: Scope): boolean {
  return rights.scopes.includes(scope) || rights.scopes.includes('admin');
}

export function reaches(rights: Rights, topic: string): boolean {
  return rights.topics.some((glob) => matchesGlob(glob, topic));
}

export function reachesEveryTopic(rights: Rights): boolean {
  return rights.topics.includes(everyTopic);
}

/** Whether every topic that the glob matches is covered. A `*` of the glob stands for any characters, so it
 *  has to meet a `*` of these rights. */
export function coversGlob(rights: Rights, glob: string): boolean {
  return rights.topics.some((own) => matchesGlob(own, glob));
}

/** Matches piece by piece from the left: a regular expression made from `*a*a*a*b` would backtrack
 *  exponentially. */
export function matchesGlob(glob: string, name: string): boolean {
  const [first = '', ...rest] = glob.split('*');
  const last = rest.pop();
  if (last === undefined) return glob === name;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const piece of rest) {
    const found = name.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
