// Console sessions, sign-in links and audit entries of a registry.

import { expect } from 'vitest';
import { type AuditEntry, type AuditFilter, firstAuditId, makeAuditId } from '../../../src/core/audit.ts';
import { limits } from '../../../src/core/limits.ts';
import {
  digestHalves,
  linkDigestOf,
  makeSessionHalves,
  makeSignInLink,
  type SessionRecord,
  type SignInLink,
} from '../../../src/core/session.ts';
import type { Registry } from '../../../src/ports/registry.ts';
import { sqlLimits } from '../../../src/registry/sql/limits.ts';

import { fact, type RegistryCase } from './case.ts';

let made = 0;
const session = (more: Partial<SessionRecord> = {}): SessionRecord => {
  made += 1;
  return {
    id: makeSessionHalves().id,
    ...digestHalves(`cookie ${made}`, `key ${made}`),
    ...{ name: 'li.wei', scopes: ['read', 'operate'], topics: ['order.*'], tokenId: null },
    ...{
      signedInBy: 'link',
      address: '::1',
      browser: 'Firefox, Linux',
      createdAt: made,
      usedAt: made,
      endsAt: 1_000_000,
    },
    ...more,
  };
};
const link = (more: Partial<SignInLink> = {}): SignInLink => ({
  digest: linkDigestOf(makeSignInLink()) as string,
  name: 'li.wei',
  scopes: ['admin'],
  topics: ['*', 'x'],
  tokenId: 'abc',
  endsAt: 1_000,
  ...more,
});
const idsOf = async (registry: Registry) =>
  ((await registry.sessions(-1)).sessions ?? []).map(({ id }) => id);

export const sessionCases: readonly RegistryCase[] = [
  fact('are kept whole and listed by their beginning, also after closing', async ({ open }) => {
    const registry = await open();
    const [a, b] = [session(), session({ tokenId: 'abc', signedInBy: 'token', scopes: [], topics: ['*'] })];
    expect(await registry.createSession(b)).toBe('created');
    expect(await registry.createSession(a)).toBe('created');
    expect(await registry.sessions(-1)).toEqual({ revision: 2, sessions: [a, b] });
    expect(await registry.sessions(2)).toEqual({ revision: 2, sessions: null });
    await registry.close();
    expect((await (await open()).sessions(-1)).sessions).toEqual([a, b]);
  }),
  fact('record later uses only', async ({ open }) => {
    const registry = await open();
    const a = session({ usedAt: 500 });
    await registry.createSession(a);
    expect(await registry.useSession(a.id, 499)).toBe('absent');
    expect(await registry.useSession(a.id, 600)).toBe('updated');
    expect(await registry.useSession('0123456789ab', 700)).toBe('absent');
    expect(await registry.sessions(1)).toEqual({ revision: 2, sessions: [{ ...a, usedAt: 600 }] });
  }),
  fact('are removed by id, or all', async ({ open }) => {
    const registry = await open();
    const [a, b, c] = [session(), session(), session()];
    for (const one of [a, b, c]) await registry.createSession(one);
    for (const id of ['0123456789ab', '', `${a.id}\0`, '%', a.id.toUpperCase().replace(/\d/g, 'A')])
      expect(await registry.removeSessions(id)).toBe('absent');
    expect(await registry.removeSessions(b.id)).toBe('removed');
    expect(await registry.removeSessions(b.id)).toBe('absent');
    expect(await idsOf(registry)).toEqual([a.id, c.id]);
    expect(await registry.removeSessions(null)).toBe('removed');
    expect(await registry.removeSessions(null)).toBe('absent');
    expect(await idsOf(registry)).toEqual([]);
  }),
  fact(
    'a new one drops those that have ended, and beyond limits.sessionsMax the one unused for longest',
    async ({ open, run }) => {
      const registry = await open();
      const ended = session({ endsAt: 2_000 });
      await registry.createSession(ended);
      const kept = session({ createdAt: 1_999 });
      await registry.createSession(kept);
      expect(await idsOf(registry)).toContain(ended.id);
      await registry.createSession(session({ createdAt: 2_000 }));
      expect(await idsOf(registry)).not.toContain(ended.id);
      const hex = (n: number, length: number) => n.toString(16).padStart(length, '0');
      const rows = Array.from(
        { length: limits.sessionsMax - 2 },
        (_, i) =>
          `('${hex(i, 12)}', '${hex(i, 64)}', '${hex(i, 64)}', 'n', '[]', '[]', NULL, 'link', '', '', 0, ${i + 100_000}, 9000000)`,
      );
      await run(
        `INSERT INTO session (id, cookie_digest, key_digest, name, scopes, topics, token_id, signed_in_by, address, browser, created_at, used_at, ends_at) VALUES ${rows.join(', ')}`,
      );
      await registry.useSession(kept.id, 90_000);
      await registry.createSession(session({ createdAt: 3_000, usedAt: 200_000 }));
      const ids = await idsOf(registry);
      expect(ids).toHaveLength(limits.sessionsMax);
      expect(ids).toContain(kept.id);
      await registry.createSession(session({ createdAt: 3_000, usedAt: 200_001 }));
      expect(await idsOf(registry)).not.toContain(kept.id);
      expect(await idsOf(registry)).toHaveLength(limits.sessionsMax);
    },
  ),
  fact(
    'beyond limits.sessionsPerTokenMax of one token the one unused for longest is dropped',
    async ({ open }) => {
      const registry = await open();
      const others = [session({ tokenId: 'def' }), session()];
      for (const one of others) await registry.createSession(one);
      const own = Array.from({ length: limits.sessionsPerTokenMax + 1 }, () => session({ tokenId: 'abc' }));
      for (const one of own) await registry.createSession(one);
      expect(await idsOf(registry)).toEqual([...others, ...own.slice(1)].map(({ id }) => id));
    },
  ),
  fact('a row with a damaged column grants no rights, and hides no other session', async ({ open, run }) => {
    const registry = await open();
    const [a, b] = [session(), session()];
    await registry.createSession(a);
    await registry.createSession(b);
    for (const change of ['scopes = \'"*"\'', "key_digest = 'x'", "signed_in_by = 'nobody'"]) {
      await run(`UPDATE session SET ${change} WHERE id = '${a.id}'`);
      expect(await idsOf(registry), change).toEqual([b.id]);
    }
    expect(await registry.removeSessions(a.id)).toBe('removed');
  }),
  fact('a change of them notifies; a link does not', async ({ open }) => {
    const registry = await open();
    let calls = 0;
    registry.onChange(() => {
      calls += 1;
    });
    const a = session();
    await registry.createSession(a);
    await registry.useSession(a.id, 999);
    await registry.useSession(a.id, 999);
    await registry.removeSessions(a.id);
    await registry.removeSessions(a.id);
    expect(calls).toBe(3);
    const one = link();
    await registry.createSignInLink(one, 0);
    await registry.takeSignInLink(one.digest, 0);
    expect(calls).toBe(3);
  }),
  fact('a sign-in link is taken once, before its end', async ({ open }) => {
    const registry = await open();
    const [a, b] = [link(), link({ endsAt: 500, tokenId: null })];
    expect(await registry.createSignInLink(a, 0)).toBe('created');
    await registry.createSignInLink(b, 0);
    for (const digest of ['', 'x', '0'.repeat(64), a.digest.toUpperCase()])
      expect(await registry.takeSignInLink(digest, 0)).toBeNull();
    expect(await registry.takeSignInLink(a.digest, 999)).toEqual(a);
    expect(await registry.takeSignInLink(a.digest, 999)).toBeNull();
    expect(await registry.takeSignInLink(b.digest, 500)).toBeNull();
    expect(await registry.takeSignInLink(b.digest, 0)).toBeNull();
  }),
  fact('of two takers of one link at once, one gets it', async ({ open }) => {
    const [here, there] = [await open(), await open()];
    const one = link();
    await here.createSignInLink(one, 0);
    const taken = await Promise.all([here, there].map((by) => by.takeSignInLink(one.digest, 0)));
    expect(taken.filter((found) => found !== null)).toEqual([one]);
  }),
  fact('audit entries: a repeat adds nothing; lists follow their bounds and filters', async ({ open }) => {
    const registry = await open();
    const entry = (at: number, more: Partial<AuditEntry> = {}): AuditEntry => ({
      ...{ id: makeAuditId(at), at, actor: 'Li', address: '::1', action: 'patchTopic', topic: 'T' },
      ...{ jobId: null, detail: null, status: 200, code: null },
      ...more,
    });
    const changes = [{ field: 'title', before: null, after: '标题 😀' }];
    const a = entry(1_000, { detail: { changes } });
    const b = entry(2_000, { actor: 'li', topic: 't', jobId: '任务' });
    const c = entry(3_000, { topic: null, code: 'unknown', status: 503 });
    await registry.addAudit([a, b]);
    await registry.addAudit([b, c]);
    const found = async (filter: AuditFilter, before: string | null = null, limit = 10) =>
      (await registry.audit(filter, before, limit)).items;
    expect(await registry.audit({}, null, 10)).toEqual({ items: [c, b, a], next: null });
    expect(await registry.audit({}, null, 1)).toEqual({ items: [c], next: c.id });
    expect(await found({}, c.id)).toEqual([b, a]);
    expect(await found({ topic: 'T' })).toEqual([a]);
    expect(await found({ topic: 't', jobId: '任务' })).toEqual([b]);
    expect(await found({ actor: 'li' })).toEqual([b]);
    expect(await found({ action: 'other' })).toEqual([]);
    expect(await found({ since: 2_000, until: 3_000 })).toEqual([b]);
    expect(await registry.trimAudit(firstAuditId(2_000))).toEqual({ more: false });
    expect(await found({})).toEqual([c, b]);
    // The command line names its user, too.
    const d = entry(4_000, { actor: 'dq CLI (li)' });
    await registry.addAudit([d]);
    for (const actor of ['dq CLI', 'dq CLI (li)']) expect(await found({ actor })).toEqual([d]);
    expect(await found({ actor: 'li' })).toEqual([d, b]);
    for (const actor of ['dq', 'CLI', 'l']) expect(await found({ actor })).toEqual([]);
  }),
  fact(
    'a list of audit entries examines at most sqlLimits.auditScanMax and says where it stopped',
    async ({ open }) => {
      const registry = await open();
      const count = sqlLimits.auditScanMax + 1;
      const all = Array.from({ length: count }, (_, at) => ({
        ...{ id: makeAuditId(at), at, actor: at === 0 ? 'rare' : 'x', address: '', action: 'a', topic: null },
        ...{ jobId: null, detail: null, status: 200, code: null },
      }));
      for (let n = 0; n < count; n += limits.auditBatchMax)
        await registry.addAudit(all.slice(n, n + limits.auditBatchMax));
      const first = await registry.audit({ actor: 'rare' }, null, 10);
      expect(first).toEqual({ items: [], next: all[1]?.id });
      const second = await registry.audit({ actor: 'rare' }, first.next, 10);
      expect(second).toEqual({ items: [all[0]], next: null });
      expect(await registry.trimAudit(firstAuditId(count))).toEqual({ more: true });
    },
  ),
  fact('unused links are at most limits.signInLinksMax; the one that ends first goes', async ({ open }) => {
    const registry = await open();
    const links = Array.from({ length: limits.signInLinksMax + 1 }, (_, i) => link({ endsAt: 1_000 + i }));
    for (const one of links) await registry.createSignInLink(one, 0);
    expect(await registry.takeSignInLink((links[0] as SignInLink).digest, 0)).toBeNull();
    expect(await registry.takeSignInLink((links[1] as SignInLink).digest, 0)).toEqual(links[1]);
  }),
];
