// Begins and ends the session of the page. The order: a sign-in link in the address, the stored key, and,
// on a machine without any token, the session "this machine".

import { signal } from '@preact/signals';
import type { MeJson, SignedInJson } from '../../../contract/api/access.ts';
import type { SummaryJson } from '../../../contract/api/stats.ts';
import type { Scope } from '../../../core/token.ts';
import { CallError, call, hasKey, retryMs, setKey, signedOut, wait } from './call.ts';

type SessionState =
  | { readonly kind: 'starting' }
  | { readonly kind: 'signed_out'; readonly error: CallError | null }
  | { readonly kind: 'signed_in'; readonly me: MeJson };

export const session = signal<SessionState>({ kind: 'starting' });
/** Counts of the instance: the shell polls them for the navigation and the screens. null: not read yet. */
export const summary = signal<SummaryJson | null>(null);
/** Daemon's clock minus the browser's, ms. */
export const clockOffset = signal(0);

/** The daemon read `now` between these times of the browser's clock. An offset that fits them stays, so that
 *  texts do not flicker. */
export function followClock(now: string, sentAt: number, receivedAt: number): void {
  const at = Date.parse(now);
  clockOffset.value = Math.min(Math.max(clockOffset.value, at - receivedAt), at - sentAt);
}

/** Epoch ms by the daemon's clock. */
export const daemonNow = (): number => Date.now() + clockOffset.value;

/** What the session is; null: there is none. */
export const me = (): MeJson | null => (session.value.kind === 'signed_in' ? session.value.me : null);

export const may = (scope: Scope): boolean =>
  me()?.scopes.some((one) => one === scope || one === 'admin') === true;

/** Unit of the waits 2n+1, ms. */
export const retryUnitMs = (): number => me()?.retryUnitMs ?? 60_000;

/** The brokers that a topic can name. */
export const brokers = (): MeJson['brokers'] => me()?.brokers ?? [];

/** Address of the API in examples. */
export const serverUrl = (): string => me()?.serverUrl ?? 'http://127.0.0.1:6789';

/** Topics that are registered. */
export const topicCount = ({ topics: { active, paused, offline } }: SummaryJson): number =>
  active + paused + offline;

/** Until every process has read a new session. */
const newSessionMs = 1_200;

/** Begins the session of the page. While dq does not answer, it tries again: the page may have been opened in
 *  a restart. */
export async function start(): Promise<void> {
  const link = /^#in=(dql_[A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
  // The fragment is a secret: out of the address and the history before anything else.
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search);
  for (let failures = 0; ; failures += 1) {
    await begin(link);
    const { value } = session;
    if (value.kind !== 'signed_out' || !isUnanswered(value.error)) return;
    await wait(retryMs(failures));
    // The user has signed in meanwhile, or has tried to.
    if (session.value !== value) return;
  }
}

async function begin(link: string | undefined): Promise<void> {
  if (link !== undefined) {
    await signIn({ link });
    const { value } = session;
    const isUsed = value.kind === 'signed_out' && value.error?.status === 401;
    // A used link that is opened again: the session of its first use may go on.
    if (isUsed && hasKey()) await readMe(true).catch(() => undefined);
    return;
  }
  if (!hasKey()) return signIn({}, true);
  try {
    await readMe();
  } catch (error) {
    if (!isRejected(error)) return show(error);
    await signIn({}, true);
  }
}

/** `silent`: the page does not show a rejection, because the user has not asked for this sign-in. */
export async function signIn(by: { link?: string; token?: string }, silent = false): Promise<void> {
  try {
    await beginSession(by);
  } catch (error) {
    show(silent && !isUnanswered(error) ? null : error);
  }
}

/** Signs in with a token that the page shows: the page stays, and while dq does not answer, it tries again.
 *  Rejects when dq rejects the token. */
export async function signInAndStay(token: string): Promise<void> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await beginSession({ token });
    } catch (error) {
      if (!isUnanswered(error)) throw error;
    }
    await wait(retryMs(failures));
  }
}

async function beginSession(by: { link?: string; token?: string }): Promise<void> {
  const { key } = await call<SignedInJson>('POST', '/v1/session', { json: by });
  setKey(key);
  await readMe(true).catch(async (error: unknown) => {
    if (!isRejected(error)) throw error;
    // Another instance answers, or an older process: it reads new sessions once a second.
    await wait(newSessionMs);
    await readMe();
  });
}

const isUnanswered = (error: unknown): boolean =>
  error instanceof CallError && (error.status === 0 || error.status === 503);
const isRejected = (error: unknown): boolean => error instanceof CallError && error.status === 401;

export async function signOut(): Promise<void> {
  await call('DELETE', '/v1/session').catch(() => undefined);
  setKey(null);
  session.value = { kind: 'signed_out', error: null };
}

async function readMe(mayBeEarly = false): Promise<void> {
  const sentAt = Date.now();
  const me = await call<MeJson>('GET', '/v1/me', { mayBeEarly });
  followClock(me.now, sentAt, Date.now());
  signedOut.value = false;
  session.value = { kind: 'signed_in', me };
}

function show(error: unknown): void {
  session.value = { kind: 'signed_out', error: error instanceof CallError ? error : null };
}
