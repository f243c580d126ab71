// The one table of topic fields. The type of a topic's settings, their defaults, validation, the schema in
// /openapi.json, the flags of `dq topic add` and `set`, the manual's table and the form of the console derive
// from it; .github/CONTRIBUTING.md has the steps of a new field. All show the fields in groups, and inside a
// group in the order of the table. A default that changes later changes no stored topic, but applies to rows
// that were written before the field existed.

import { limits } from '../limits.ts';
import { backoff } from './backoff.ts';
import {
  againAfter,
  boolean,
  choice,
  duration,
  endsInOutage,
  fraction,
  headers,
  hookNames,
  idempotencyWindow,
  integer,
  mailAddresses,
  rule,
  statuses,
  type TopicField,
  text,
  topicName,
  topicNamePattern,
  topicNameRule,
  url,
} from './field-kinds.ts';
import { parseSecret } from './secrets.ts';
import { target } from './target.ts';

export { topicNamePattern, topicNameRule };

export const topicStates = ['active', 'paused', 'offline'] as const;

// biome-ignore format: one line per field
export const topicFields = {
  callbackUrl: url(2_048, 'http or https URL that dq calls for each job', { group: 'call', form: 'first wide mono', usedBy: ['push'], flag: '--callback <url>', defaultText: 'none', more: 'Needed there, `null` with another delivery' }),
  delivery: choice(['push', 'pull', 'mq'], 'push', 'push: dq calls callbackUrl; pull: clients take jobs; mq: to a broker', { group: 'call', flag: '--delivery <delivery>', more: 'A field that the delivery does not use must be left out. A change holds for the jobs that wait; calls and leases end as they began' }),
  target: target('broker and place that get the jobs of delivery mq', { group: 'call', form: 'first mono', usedBy: ['mq'], flag: '--target <broker/to>', more: 'Needed there. `broker` is a name of `brokers` in the configuration. With amqp091 `to` is a queue; with a `key` it is an exchange, and `key` the routing key. With amqp10 `to` is an address and `key` the subject; with stomp `to` is a destination and `key` the type. The flag reads `main/orders` and `main/events#order.created`' }),
  leaseMs: duration(limits.pullLeaseMsMin, limits.pullLeaseMsMax, 60_000, 'time that a client has for a job that it pulled', { group: 'call', form: 'mono', usedBy: ['pull'], isKept: true, flag: '--lease <duration>', more: 'A topic of another delivery keeps the value. A lease that ends without an answer is a failed attempt' }),
  method: choice(['POST', 'PUT', 'GET'], 'POST', 'HTTP method of callbacks; GET needs format form', { group: 'call', usedBy: ['push'], flag: '--method <method>' }),
  format: choice(['raw', 'form', 'message'], 'raw', 'raw: the body as pushed; form: its members as form fields', { group: 'call', usedBy: ['push', 'mq'], flag: '--format <format>', more: 'With method GET the form fields go into the query. `message` is `raw`, and pushes of clients of sdmq and mykit-delay are stored as the whole message in JSON, not as its body alone' }),
  headers: headers(16, 1_024, 'static headers of every callback', { group: 'call', form: 'wide mono', usedBy: ['push', 'mq'], flag: '--header <name: value>', more: 'With `mq` they are properties of the message. They replace all earlier ones. Hop-by-hop headers and those that dq sets are rejected. Only callers with the scope `admin` see the values, others see `***`; `***` in a request keeps the stored value' }),
  delayMs: duration(0, limits.delayMsMax, 0, 'delay of a push that gives none', { group: 'call', form: 'mono', flag: '--delay <duration>' }),
  timeoutMs: duration(100, 60_000, 3_000, 'time limit of one attempt, from name lookup to the last byte', { group: 'call', form: 'mono', usedBy: ['push', 'mq'], flag: '--timeout <duration>' }),
  dangerouslySkipTlsVerify: boolean(false, 'accept any certificate of the callback server', { group: 'call', form: 'wide', usedBy: ['push'], more: 'For an authority of your own, start dq with `NODE_EXTRA_CA_CERTS=FILE` instead' }),
  retryIf: rule('retry rule: dq retries when it is true of the reply', { group: 'verdict', form: 'first wide mono', usedBy: ['push'], flag: '--rule <expression>' }),
  deadIf: rule('rule: when it is true of the reply, the job dies at once', { group: 'verdict', form: 'wide mono', usedBy: ['push'], flag: '--dead-if <expression>', more: 'Of a reply with any status, and before all other checks. dq rejects a rule that is true of two of an empty 502, 503 and 504' }, endsInOutage),
  againIf: rule('rule: when it is true of the reply, dq calls again later', { group: 'verdict', form: 'wide mono', usedBy: ['push'], flag: '--again-if <expression>', more: 'Of a reply with any status. No attempt counts; needs `againAfter`. The reply header `dq-again` asks for the same' }),
  againAfter: againAfter('wait after a reply for which againIf is true', { group: 'verdict', form: 'mono', usedBy: ['push'], flag: '--again-after <wait>', more: 'A duration such as `10m`, or one reference with a unit such as `{res.retry_in}s`. dq keeps it between 1 s and 30 d, and waits 1 min where the reply has no number there' }),
  okStatus: statuses(50, ['2xx'], 'statuses and classes that can count as success', { group: 'verdict', form: 'mono', usedBy: ['push'], flag: '--ok-status <list>' }),
  emptyReply: choice(['retry', 'accept'], 'accept', 'meaning of a 2xx reply without a body, except a 204', { group: 'verdict', usedBy: ['push'], flag: '--empty-reply <choice>', defaultText: '`accept`, with `format: form` `retry`', more: 'The value is stored when the topic is created: a PATCH of `format` alone keeps it' }),
  maxAttempts: integer(1, limits.attemptsMax, 10, 'attempts in all, the first one included', { group: 'retry', flag: '--max-attempts <n>' }),
  backoff: backoff('waits between attempts: 2n+1, a ladder or a formula', { group: 'retry', form: 'mono', flag: '--backoff <policy>', more: '`"2n+1"`: 1, 3, 5 … × `retry.unit`. A ladder such as `["15s","3m","1h"]` repeats its last step. A formula such as `{"type":"exponential","base":"10s","factor":2,"cap":"1h"}` waits min(cap, base × factor^n)' }),
  jitter: fraction(0, 0.5, 0, 'share of the wait that dq adds at random', { group: 'retry', flag: '--jitter <share>' }),
  priority: choice(['high', 'normal', 'low'], 'normal', 'share of the slots when they are short: 5 : 3 : 2', { group: 'limits', flag: '--priority <priority>' }),
  concurrency: integer(1, limits.topicConcurrencyMax, 64, 'callbacks in flight at once, per instance', { group: 'limits', usedBy: ['push', 'mq'], flag: '--concurrency <n>' }),
  rate: integer(0, limits.topicRateMax, 0, 'callbacks started per second and instance; 0 = no limit', { group: 'limits', usedBy: ['push', 'mq'], flag: '--rate <n>', more: 'Waiting for it costs no attempt' }),
  idempotencyMs: idempotencyWindow('time after its end in which a push of an id stores nothing', { group: 'limits', form: 'mono', flag: '--idempotency <duration>', more: 'A death and a cancel are ends, too. A push gives a window of its own as `idempotency`' }),
  onDone: topicName('topic that gets a job for each delivered job', { group: 'after', form: 'mono', flag: '--on-done <topic>', more: 'The push of that job and the end of this one are one step. `""`: none' }),
  onDead: topicName('topic that gets a job for each dead letter', { group: 'after', form: 'mono', flag: '--on-dead <topic>', more: 'Also for one that poison, its deadline or a client made. `""`: none' }),
  alertEmails: mailAddresses(limits.topicEmailsMax, 'mail addresses for dead letters, beside alerts.emails', { group: 'alerts', form: 'first wide', flag: '--alert <addresses>' }),
  alertHooks: hookNames(limits.topicHooksMax, 'names of alerts.hooks for dead letters, beside alerts.defaultHooks', { group: 'alerts', form: 'wide', flag: '--alert-hook <names>', more: 'The configuration of dq holds the URLs and secrets of hooks; a topic holds their names only' }),
  title: text(200, '', 'title for people', { group: 'alerts', flag: '--title <text>' }),
  owner: text(200, '', 'person or team that owns the topic', { group: 'alerts', flag: '--owner <text>' }),
} as const satisfies Readonly<Record<string, TopicField>>;

/** The fields of a topic that are stored in columns of their own. */
export const topicColumns = {
  topic: {
    kind: 'text',
    help: 'name of the topic; it never changes',
    bounds: `letters, digits, \`.\` \`_\` \`-\`, at most ${limits.topicNameMax}`,
    schema: { type: 'string', pattern: topicNamePattern.source },
    parse: (value, field, errors) =>
      typeof value === 'string' && topicNamePattern.test(value) ? value : errors.reject(field, topicNameRule),
  } satisfies TopicField<string>,
  state: choice(topicStates, 'active', 'state of the topic', {
    more: '`paused`: pushes are accepted, deliveries held. `offline`: pushes are rejected, deliveries held. Neither drops a job',
  }),
  secret: {
    kind: 'text',
    help: 'signing secret; dq makes one when it is not given',
    more: 'Given at creation or rotation; shown in that reply only',
    bounds: `\`whsec_\` and base64 of ${limits.secretBytesMin} to ${limits.secretBytesMax} bytes`,
    defaultText: 'made',
    schema: { type: 'string', pattern: '^whsec_[A-Za-z0-9+/]+={0,2}$' },
    flag: '--secret <secret>',
    parse: (value, field, errors) => {
      const parsed = parseSecret(value);
      return parsed.ok ? parsed.value : errors.reject(field, parsed.message);
    },
  } satisfies TopicField<string>,
} as const;
