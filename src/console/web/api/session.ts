// Begins and ends the session of the page. The order: a sign-in link in the address, the stored key, and,
// on a machine without any token, the session "this machine".

import { signal } from '@preact/signals';
import { CallError, call, get, hasKey, setKey, signedOut } from './call.ts';

export type Scope = 'push' | 'read' | 'operate' | 'admin';

export interface Me {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly topics: readonly string[];
  readonly readOnly: boolean;
  readonly tokensExist: boolean;
  readonly label: string;
  readonly color: string;
  readonly version: string;
  readonly host: string;
  readonly timezone: string;
  readonly store: 'embedded' | 'redis';
  /** the daemon's clock, RFC 3339 */
  readonly now: string;
}

export type SessionState =
  | { readonly kind: 'starting' }
  | { readonly kind: 'signed_out'; readonly error: CallError | null }
  | { readonly kind: 'signed_in'; readonly me: Me };

export const session = signal<SessionState>({ kind: 'starting' });
/** Daemon's clock minus the browser's, ms. */
export const clockOffset = signal(0);

/** Epoch ms by the daemon's clock. */
export const daemonNow = (): number => Date.now() + clockOffset.value;

export function may(scope: Scope): boolean {
  const { value } = session;
  if (value.kind !== 'signed_in') return false;
  return value.me.scopes.includes(scope) || value.me.scopes.includes('admin');
}

export async function start(): Promise<void> {
  const link = /^#in=(dql_[A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
  // The fragment is a secret: out of the address and the history before anything else.
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search);
  if (link !== undefined) return signIn({ link });
  if (!hasKey()) return signIn({}, true);
  try {
    await readMe();
  } catch (error) {
    if (!(error instanceof CallError) || error.status !== 401) return show(error);
    await signIn({}, true);
  }
}

/** `silent`: the page does not show a rejection, because the user has not asked for this sign-in. */
export async function signIn(by: { link?: string; token?: string }, silent = false): Promise<void> {
  try {
    const { key } = await call<{ key: string }>('POST', '/v1/session', { json: by });
    setKey(key);
    await readMe();
  } catch (error) {
    show(silent && error instanceof CallError && error.status !== 0 ? null : error);
  }
}

export async function signOut(): Promise<void> {
  await call('DELETE', '/v1/session').catch(() => undefined);
  setKey(null);
  session.value = { kind: 'signed_out', error: null };
}

async function readMe(): Promise<void> {
  const sentAt = Date.now();
  const me = await get<Me>('/v1/me');
  clockOffset.value = Date.parse(me.now) - (sentAt + Date.now()) / 2;
  signedOut.value = false;
  session.value = { kind: 'signed_in', me };
}

function show(error: unknown): void {
  session.value = { kind: 'signed_out', error: error instanceof CallError ? error : null };
}
