// Answers 304 to a poll whose reply is the same as the last one: the browser does not parse it again. The
// digest of the reply decides, so a change of data or rights is always seen. Routes with an ETag of their
// own, such as a topic's, keep it.

import { createHash } from 'node:crypto';
import type { Api } from '../api/api-context.ts';
import { isRead } from '../api/http/read-methods.ts';

export function answerUnchanged(api: Api): void {
  api.addHook('onSend', (request, answer, payload, done) => {
    const isOwn = answer.hasHeader('etag');
    if (!isRead(request.method) || answer.statusCode !== 200 || typeof payload !== 'string' || isOwn)
      return done(null, payload);
    const etag = `"${createHash('sha256').update(payload).digest('base64url').slice(0, 22)}"`;
    answer.header('etag', etag);
    if (request.headers['if-none-match'] !== etag) return done(null, payload);
    answer.code(304).removeHeader('content-type');
    done(null, null);
  });
}
