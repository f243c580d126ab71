// callbackWebhook describes the callback in /openapi.json, for receivers that generate their code: the
// request that dq sends for each attempt, and the meaning of the reply. The notifier sends it;
// src/manual/receiving.md is its contract.

const header = (name: string, description: string, example: string | number, type = 'string') => ({
  in: 'header',
  name,
  required: true,
  description,
  schema: { type },
  example,
});

const rawBody = { schema: { type: 'string', format: 'binary', description: 'the body as it was pushed' } };
const retryAfter = {
  'Retry-After': {
    description: 'the next attempt waits at least this long, at most 24 h: seconds or a date',
    schema: { type: 'string' },
  },
};

export const callbackWebhook = {
  callback: {
    post: {
      operationId: 'callback',
      tags: ['callback'],
      summary: 'A job is due',
      description:
        'dq sends it to the callbackUrl of the topic, with the method of the topic (POST, PUT or GET) and its static headers. Delivery is at least once: webhook-id is the same on every attempt of a job and is the idempotency key.',
      parameters: [
        header('webhook-id', 'idempotency key: the same on every attempt of a job', 'msg_2b7e151628aed2a6'),
        header('webhook-timestamp', 'time of this attempt, Unix seconds', 1_893_456_000, 'integer'),
        header(
          'webhook-signature',
          'v1,<base64 HMAC-SHA256 of "id.timestamp.body">, as Standard Webhooks defines it; several, separated by spaces, while a secret is being rotated',
          'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
        ),
        header('dq-topic', 'topic name', 'order.close'),
        header('dq-job-id', 'job id, percent-encoded', '4711'),
        header('dq-attempt', 'number of this attempt, from 1', 1, 'integer'),
        header('dq-again-count', 'how often the job was snoozed; absent: never', 3, 'integer'),
        header('dq-max-attempts', 'maxAttempts of the job, or of its topic', 10, 'integer'),
        header('dq-due-at', 'when this attempt was due, RFC 3339', '2030-01-01T08:00:00.000Z'),
      ],
      requestBody: {
        description:
          'The body and content type as pushed. With format form: the top-level members as form fields',
        required: false,
        content: {
          'application/json': { schema: { description: 'any JSON value' } },
          'application/x-www-form-urlencoded': {
            schema: { type: 'object', additionalProperties: { type: 'string' } },
          },
          '*/*': rawBody,
        },
      },
      responses: {
        '2XX': {
          description:
            'delivered, if the status is in okStatus, emptyReply accepts the body and the rules of the topic are false; otherwise dq retries. With the header dq-again: 10m dq calls again after that time, and no attempt counts',
        },
        '410': { description: 'failed; dq makes no further attempt' },
        '429': { description: 'failed; dq retries', headers: retryAfter },
        '503': { description: 'failed; dq retries', headers: retryAfter },
        default: {
          description: 'failed; dq retries, unless the reply has the header dq-no-retry: true',
        },
      },
      security: [],
    },
  },
};
