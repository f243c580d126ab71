// A receiver with node:http: verifies the signature, does the work, answers.
// WEBHOOK_SECRET=whsec_… PORT=9000 node receiver-node.mjs
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

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

/** Throws when the job must come again. */
async function work(id, topic, body) {
  // A job can arrive twice: store its id together with the result, and skip a known one.
  console.log(topic, id, body.toString());
}

createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  if (!isFromDq(request.headers, body)) {
    response.writeHead(401).end();
    return;
  }
  try {
    await work(request.headers['webhook-id'], request.headers['dq-topic'], body);
    response.end('{"code":200}');
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
}).listen(Number(process.env.PORT ?? 9000), '127.0.0.1');
