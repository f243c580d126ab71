// A receiver with fastify: verifies the raw body, then reads it.
// WEBHOOK_SECRET=whsec_… PORT=9000 node receiver-fastify.mjs
import { createHmac, timingSafeEqual } from 'node:crypto';
import fastify from 'fastify';

const secret = process.env.WEBHOOK_SECRET ?? '';
const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
if (key.length === 0) throw new Error('WEBHOOK_SECRET: give the secret of the topic');

function isFromDq(headers, body) {
  const id = headers['webhook-id'] ?? '';
  const time = headers['webhook-timestamp'] ?? '';
  const signatures = headers['webhook-signature'] ?? '';
  if (!/^\d{1,12}$/.test(time) || Math.abs(Date.now() / 1000 - Number(time)) > 300) return false;
  const expected = createHmac('sha256', key).update(`${id}.${time}.`).update(body).digest();
  return signatures.split(' ').some((signature) => {
    if (!signature.startsWith('v1,')) return false;
    const given = Buffer.from(signature.slice('v1,'.length), 'base64');
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

const app = fastify();
// The bytes as they came: a body that is parsed and written again has another signature.
app.removeAllContentTypeParsers();
app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
app.addHook('preHandler', async (request, reply) => {
  if (!isFromDq(request.headers, request.body ?? Buffer.alloc(0))) return reply.code(401).send();
});

// A job can arrive twice: store its webhook-id together with the result, and skip a known one.
app.post('/*', async (request) => {
  const { 'webhook-id': id, 'dq-topic': topic } = request.headers;
  console.log(topic, id, String(request.body ?? ''));
  return { code: 200 };
});

await app.listen({ port: Number(process.env.PORT ?? 9000), host: '127.0.0.1' });
