// Stores console sessions and sign-in links as digests. Both tables are bounded: a new row drops rows that
// have ended, then those unused for longest. Sessions are always read whole.

import { limits } from '../../../core/limits.ts';
import { type SessionRecord, type SignInLink, signInKinds } from '../../../core/session.ts';
import type { Registry } from '../../../ports/registry.ts';
import type { Db, RegistryAccess, Trx } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { digestPattern, rightsColumns, rightsOf } from './registry-tokens.ts';

const idPattern = /^[0-9a-f]{12}$/;

export function sessionVerbs(db: RegistryAccess) {
  return {
    async sessions(since) {
      const { revision, found } = await db.readSince(since, readSessions);
      return { revision, sessions: found };
    },
    createSession: (session) => db.change((trx) => insertSession(trx, session)),
    useSession: (id, usedAt) => db.change((trx) => updateUse(trx, id, usedAt)),
    removeSessions: (id) => db.change((trx) => deleteSessions(trx, id)),
    createSignInLink: (link, now) => db.write((trx) => insertLink(trx, link, now)),
    takeSignInLink: (digest, now) => db.write((trx) => takeLink(trx, digest, now)),
  } satisfies Partial<Registry>;
}

async function insertSession(trx: Trx, session: SessionRecord): Promise<'created'> {
  await trx.deleteFrom('session').where('ends_at', '<=', session.createdAt).execute();
  const byUse = trx.selectFrom('session').select('id').orderBy('used_at', 'desc');
  const { tokenId } = session;
  const ofToken = tokenId === null ? [] : await byUse.where('token_id', '=', tokenId).execute();
  const all = await byUse.execute();
  const dropped = [...ofToken.slice(limits.sessionsPerTokenMax - 1), ...all.slice(limits.sessionsMax - 1)];
  for (const { id } of dropped) await trx.deleteFrom('session').where('id', '=', id).execute();
  await trx
    .insertInto('session')
    .values({
      id: session.id,
      cookie_digest: session.cookieDigest,
      key_digest: session.keyDigest,
      name: session.name,
      ...rightsColumns(session),
      token_id: session.tokenId,
      signed_in_by: session.signedInBy,
      address: session.address,
      browser: session.browser,
      created_at: session.createdAt,
      used_at: session.usedAt,
      ends_at: session.endsAt,
    })
    .execute();
  return 'created';
}

/** Never moves the time back: uses of several instances arrive in any order. */
async function updateUse(trx: Trx, id: string, usedAt: number): Promise<'updated' | 'absent'> {
  const { numUpdatedRows } = await trx
    .updateTable('session')
    .set({ used_at: usedAt })
    .where('id', '=', id)
    .where('used_at', '<', usedAt)
    .executeTakeFirst();
  return numUpdatedRows > 0n ? 'updated' : 'absent';
}

/** `id` null: all of them, and the links that are not used yet. */
async function deleteSessions(trx: Trx, id: string | null): Promise<'removed' | 'absent'> {
  if (id !== null && !idPattern.test(id)) return 'absent';
  if (id === null) await trx.deleteFrom('sign_in_link').execute();
  const all = trx.deleteFrom('session');
  const { numDeletedRows } = await (id === null ? all : all.where('id', '=', id)).executeTakeFirst();
  return numDeletedRows > 0n ? 'removed' : 'absent';
}

/** By the time of the sign-in. Leaves out damaged rows, which grant no rights. */
async function readSessions(db: Db): Promise<SessionRecord[]> {
  const rows = await db.selectFrom('session').selectAll().orderBy('created_at').orderBy('id').execute();
  return rows.flatMap((row) => toSession(row) ?? []);
}

async function insertLink(trx: Trx, link: SignInLink, now: number): Promise<'created'> {
  await trx.deleteFrom('sign_in_link').where('ends_at', '<=', now).execute();
  const kept = await trx.selectFrom('sign_in_link').select('digest').orderBy('ends_at', 'desc').execute();
  for (const { digest } of kept.slice(limits.signInLinksMax - 1))
    await trx.deleteFrom('sign_in_link').where('digest', '=', digest).execute();
  const { digest, name, tokenId, endsAt } = link;
  await trx
    .insertInto('sign_in_link')
    .values({ digest, name, ...rightsColumns(link), token_id: tokenId, ends_at: endsAt })
    .execute();
  return 'created';
}

async function takeLink(trx: Trx, digest: string, now: number): Promise<SignInLink | null> {
  if (!digestPattern.test(digest)) return null;
  const row = await trx
    .selectFrom('sign_in_link')
    .selectAll()
    .where('digest', '=', digest)
    .executeTakeFirst();
  if (row === undefined) return null;
  await trx.deleteFrom('sign_in_link').where('digest', '=', digest).execute();
  if (row.ends_at <= now) return null;
  try {
    const { name, token_id: tokenId, ends_at: endsAt } = row;
    return { digest, name, tokenId, endsAt, ...rightsOf(row) };
  } catch {
    return null; // a damaged row grants no rights
  }
}

function toSession(row: RegistrySchema['session']): SessionRecord | null {
  const signedInBy = signInKinds.find((kind) => kind === row.signed_in_by);
  if (signedInBy === undefined) return null;
  if (!digestPattern.test(row.cookie_digest) || !digestPattern.test(row.key_digest)) return null;
  try {
    return {
      id: row.id,
      cookieDigest: row.cookie_digest,
      keyDigest: row.key_digest,
      name: row.name,
      ...rightsOf(row),
      tokenId: row.token_id,
      signedInBy,
      address: row.address,
      browser: row.browser,
      createdAt: row.created_at,
      usedAt: row.used_at,
      endsAt: row.ends_at,
    };
  } catch {
    return null; // as above
  }
}
