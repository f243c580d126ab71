// Sessions of the console and the links that begin them: making and recognising. Pure but for the random
// bytes. A session has two halves, a cookie and a key, because all ports of a host share cookies: neither
// half is of use alone. dq keeps digests only.

import { randomBytes } from '../runtime/time.ts';
import { limits } from './limits.ts';
import { digestOf, type Rights } from './token.ts';

export const signInKinds = ['token', 'link', 'machine'] as const;

export interface SessionRecord extends Rights {
  /** names the session in lists */
  readonly id: string;
  /** SHA-256 of each half, hexadecimal */
  readonly cookieDigest: string;
  readonly keyDigest: string;
  /** of the token or the link; `this machine` */
  readonly name: string;
  /** readable part of the token that the rights come from, without which the session ends; null: none */
  readonly tokenId: string | null;
  readonly signedInBy: (typeof signInKinds)[number];
  /** IP address of the sign-in */
  readonly address: string;
  /** of the sign-in, as browserOf names it */
  readonly browser: string;
  /** epoch ms */
  readonly createdAt: number;
  /** of the last use that was recorded, epoch ms */
  readonly usedAt: number;
  /** at the latest, epoch ms */
  readonly endsAt: number;
}

/** Begins one session before `endsAt`, with these rights and this name. */
export interface SignInLink extends Rights {
  /** SHA-256 of the link's secret, hexadecimal */
  readonly digest: string;
  readonly name: string;
  readonly tokenId: string | null;
  /** epoch ms */
  readonly endsAt: number;
}

/** Names of links: those of people, `li.wei`. */
export const linkNamePattern = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;
const linkPattern = /^dql_[A-Za-z0-9_-]{43}$/;
const halfPattern = /^[A-Za-z0-9_-]{43}$/;

export function makeSessionHalves(): { readonly id: string; readonly cookie: string; readonly key: string } {
  return {
    id: randomBytes(limits.tokenIdBytes).toString('hex'),
    cookie: makeSecret(),
    key: makeSecret(),
  };
}

/** `dql_<256 bits>` */
export function makeSignInLink(): string {
  return `dql_${makeSecret()}`;
}

/** Patterns in a user agent. Edge also names Chrome, and Chrome Safari: the first one that matches counts. */
const browsers = [
  ['Edge', /Edg\w*\//],
  ['Opera', /OPR\//],
  ['Firefox', /(?:Firefox|FxiOS)\//],
  ['Chrome', /(?:Chrome|CriOS)\//],
  ['Safari', /Safari\//],
] as const;
const systems = [
  ['Android', /Android/],
  ['iOS', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS/],
  ['ChromeOS', /CrOS/],
  ['Linux', /Linux/],
] as const;

/** "Firefox, Linux": tells the sessions of a person apart. Leaves out what it does not know. */
export const browserOf = (userAgent: string): string =>
  [browsers, systems]
    .flatMap((names) => names.find(([, pattern]) => pattern.test(userAgent))?.[0] ?? [])
    .join(', ');

function makeSecret(): string {
  return randomBytes(limits.tokenBytes).toString('base64url');
}

export function digestHalves(cookie: string, key: string): Pick<SessionRecord, 'cookieDigest' | 'keyDigest'> {
  return { cookieDigest: digestOf(cookie).toString('hex'), keyDigest: digestOf(key).toString('hex') };
}

/** The digest in hexadecimal; null = dq cannot have made this half of a session. */
export function halfDigestOf(text: string | undefined): string | null {
  return text !== undefined && halfPattern.test(text) ? digestOf(text).toString('hex') : null;
}

/** The digest in hexadecimal; null = dq cannot have made this link. */
export function linkDigestOf(text: string): string | null {
  return linkPattern.test(text) ? digestOf(text).toString('hex') : null;
}

/** These rights without every scope but `read`. */
export function readOnlyRights({ scopes, topics }: Rights): Rights {
  const mayRead = scopes.includes('read') || scopes.includes('admin');
  return { scopes: mayRead ? ['read'] : [], topics: mayRead ? topics : [] };
}
