// Access tokens: how one is made, known again and read, and what it lets its holder do (http-api.md, "Access"). Pure but for
// the random bytes. The token itself is known to its holder alone: dq keeps its digest, and nothing here writes it anywhere.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { limits } from './limits.ts';

/** push: pushes, cancel · read: every GET · operate: pause, run, requeue, purge, reschedule · admin: topics, tokens, and
 *  everything else. admin covers the others; none of the others covers another one. */
export const scopes = ['push', 'read', 'operate', 'admin'] as const;
export type Scope = (typeof scopes)[number];

/** What a caller may do, and to which topics. */
export interface Rights {
  readonly scopes: readonly Scope[];
  /** names in which `*` stands for any characters: `order.*`; `*` = every topic */
  readonly topics: readonly string[];
}

export interface TokenRecord extends Rights {
  /** unique, chosen by people */
  readonly name: string;
  /** the readable part of the token, by which its record is found */
  readonly id: string;
  /** SHA-256 of the whole token, hexadecimal */
  readonly digest: string;
  /** epoch ms */
  readonly createdAt: number;
}

export const tokenNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const everyTopic = '*';
export const allRights: Rights = { scopes: ['admin'], topics: [everyTopic] };
/** All of them too, and told apart: of the token of this start, which only the daemon's own user can read. */
export const ownerRights: Rights = { scopes: ['admin'], topics: [everyTopic] };
export const noRights: Rights = { scopes: [], topics: [] };

const prefix = 'dqk_';
const tokenPattern = /^dqk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;

/** `dqk_<id>_<256 bits>`. The id is no secret: lists show it, so that a token that was found somewhere can be told. */
export function makeToken(): { readonly token: string; readonly id: string; readonly digest: string } {
  const id = randomBytes(limits.tokenIdBytes).toString('hex');
  const token = `${prefix}${id}_${randomBytes(limits.tokenBytes).toString('base64url')}`;
  return { token, id, digest: digestOf(token).toString('hex') };
}

/** null = this is no token that dq made. */
export function tokenIdOf(text: string): string | null {
  return tokenPattern.exec(text)?.[1] ?? null;
}

export function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** In constant time. Digests have one length, so that the comparison tells nothing about the token. */
export function isSameDigest(given: Buffer, known: Buffer): boolean {
  return timingSafeEqual(given, known);
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

/** Piece by piece from the left; a regular expression made from `*a*a*a*b` would try all ways to split a name. */
function matchesGlob(glob: string, name: string): boolean {
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
