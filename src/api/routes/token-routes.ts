// /v1/tokens: create, list and remove access tokens. One reply shows the token, once; dq stores its digest. A
// caller whose token covers some topics only may do none of this: it could make itself a token for all of
// them.

import { createTokenSchema, listTokensSchema, removeTokenSchema } from '../../contract/api/token.ts';
import { difference } from '../../core/audit.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { everyTopic, type TokenRecord } from '../../core/token.ts';
import { addToken, readTokenLifetime } from '../../use-cases/add-token.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { needs } from '../http/route-access.ts';

export function tokenRoutes(api: Api, { role, tokens }: ApiContext): void {
  const { registry } = role;
  const admin = needs('admin', 'every');

  api.get('/v1/tokens', { schema: listTokensSchema, config: needs('read', 'every') }, async () => {
    const all = await registry.tokens(-1);
    return { items: (all.tokens ?? []).map(tokenJson) };
  });

  api.post('/v1/tokens', { schema: createTokenSchema, config: admin }, async (request, answer) => {
    const { name, scopes: allowed, topics = [everyTopic], expiresIn } = request.body;
    const life = readTokenLifetime(expiresIn);
    if (!life.ok) throw invalidField('expiresIn', life.message);
    const wanted = { name, scopes: allowed, topics, expiresInMs: life.value };
    const given = { name, scopes: allowed, topics, expiresIn };
    auditNote(request, { detail: { changes: difference(null, given) } });
    const { token, record } = await addToken(registry, wanted);
    await refreshTokens();
    return answer.code(201).send({ ...tokenJson(record), token });
  });

  api.delete('/v1/tokens/:name', { schema: removeTokenSchema, config: admin }, async (request) => {
    const { name } = request.params;
    if ((await registry.removeToken(name)) === 'absent')
      throw new DqError('token_not_found', `there is no token ${JSON.stringify(name)}`);
    await refreshTokens();
    return { deleted: true };
  });

  async function refreshTokens(): Promise<void> {
    // The change is stored; that this process reads it late is not a failure of the call.
    await tokens.refresh().catch(() => undefined);
  }
}

function tokenJson({ createdAt, expiresAt, usedAt, digest: _, ...token }: TokenRecord) {
  return {
    ...token,
    createdAt: formatInstant(createdAt),
    expiresAt: formatInstantOrNull(expiresAt),
    lastUsedAt: formatInstantOrNull(usedAt),
  };
}
