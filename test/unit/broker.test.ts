// Brokers and targets as users write them. Each mistake names its place and a remedy, without a part of the
// credential.
import { describe, expect, it } from 'vitest';
import { formatTarget, parseBroker, placeOfBroker, type Target } from '../../src/core/broker.ts';
import { originOf } from '../../src/core/endpoint.ts';
import { parseTopicInput, topicJson, withDelivery } from '../../src/core/topic/settings.ts';
import { targetJson } from '../../src/core/topic/target.ts';
import { topicDefaults } from '../../src/core/topic/topic.ts';

function brokerOf(text: string) {
  const parsed = parseBroker(text);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.value;
}

describe('parseBroker', () => {
  const plain = { host: 'h', secure: false, verifyTls: true, login: null, vhost: '/' };
  it.each([
    ['main=amqp091+amqp://h', { ...plain, name: 'main', type: 'amqp091', port: 5_672 }],
    ['a.b_c-9=amqp091+amqps://h', { name: 'a.b_c-9', secure: true, port: 5_671 }],
    ['m=amqp10+amqps://h:9', { type: 'amqp10', secure: true, port: 9 }],
    ['m=stomp+stomp://h', { type: 'stomp', port: 61_613 }],
    ['m=stomp+stomps://h/shop', { secure: true, port: 61_614, vhost: 'shop' }],
    [
      'm=amqp091+amqp://u%40a:p%2F%3As@h/%2Fa%2Fb',
      { login: { user: 'u@a', password: 'p/:s' }, vhost: '/a/b' },
    ],
    ['m=amqp091+amqp://h/', { vhost: '/' }],
    ['m=amqp091+amqp://[::1]:5672', { host: '::1' }],
    ['m=amqp091+amqps://h?tls.rejectUnauthorized=false', { verifyTls: false }],
  ])('reads %s', (text, broker) => {
    expect(brokerOf(text)).toMatchObject(broker);
  });

  const form = 'must be NAME=TYPE+URL with a type of amqp091, amqp10, stomp, such as';
  it.each([
    ['', form],
    ['amqp://u:s3cret@h', form],
    ['m=amqp://u:s3cret@h', form],
    ['m=kafka+amqp://u:s3cret@h', form],
    ['m=amqp091+http://u:s3cret@h', form],
    ['Main=amqp091+amqp://u:s3cret@h', 'needs a name of at most 64 of a-z 0-9 . _ -'],
    [`${'m'.repeat(65)}=amqp091+amqp://u:s3cret@h`, 'needs a name of at most 64'],
    ['m=amqp091+stomp://u:s3cret@h', '"m" must begin with amqp:// or amqps://'],
    ['m=stomp+amqp://u:s3cret@h', '"m" must begin with stomp:// or stomps://'],
    ['m=amqp091+amqp://u:s3cret@', '"m" must be amqp://[user:password@]host[:port][/vhost]'],
    ['m=amqp091+amqp://u:s3 cret@h', '"m" must be amqp://'],
    ['m=amqp091+amqp://s3cret@h', '"m" needs both a user and a password'],
    ['m=amqp091+amqp://:s3cret@h', '"m" needs both a user and a password'],
    ['m=amqp091+amqp://u:s3cret%@h', '"m" must have user and password percent-encoded'],
    ['m=amqp091+amqp://u:s3cret@h:0', '"m" must not have port 0'],
    ['m=amqp091+amqp://u:s3cret@h/%', '"m" must have its virtual host percent-encoded'],
    ['m=amqp10+amqp://u:s3cret@h/shop', '"m" must end after the port or its switches: AMQP 1.0 has no'],
    ['m=amqp091+amqp://u:s3cret@h#x', '"m" must not have a fragment'],
    ['m=amqp091+amqp://u:s3#cret@h', '"m" must'],
    ['m=stomp+stomp://u:s3cret%0a@h', '"m" must not contain control characters'],
    [
      'm=amqp091+amqp://u:s3cret@h?s3cret=1',
      '"m" has an unknown or repeated switch; write tls.rejectUnauthorized=',
    ],
  ])('rejects %s with a remedy, and repeats no credential', (text, message) => {
    const parsed = parseBroker(text);
    expect(parsed).toMatchObject({ ok: false, message: expect.stringContaining(message) });
    expect(JSON.stringify(parsed)).not.toContain('s3');
  });

  it.each([
    ['m=amqp091+amqp://u:s3cret@h/a%2Fb', 'amqp091+amqp://h:5672/a%2Fb'],
    ['m=amqp10+amqps://u:s3cret@[::1]', 'amqp10+amqps://[::1]:5671'],
    ['m=stomp+stomps://u:s3cret@h', 'stomp+stomps://h:61614'],
  ])('place: %s is shown as %s', (text, place) => {
    expect(placeOfBroker(brokerOf(text))).toBe(place);
  });
});

const target = (broker: string, to: string, key: string | null = null): Target => ({ broker, to, key });

it.each([
  ['main/orders', target('main', 'orders')],
  ['main/events#order.created', target('main', 'events', 'order.created')],
  ['main/events#', target('main', 'events', '')],
  ['main/a#b#c', target('main', 'a#b', 'c')],
  ['old//queue/orders', target('old', '/queue/orders')],
])('target: %s is read and printed', (text, value) => {
  expect(targetJson(text)).toEqual(value);
  expect(formatTarget(value)).toBe(text);
});

it.each(['', 'main', '/orders', '#a/b'])('target: %j is rejected', (text) => {
  const read = targetJson(text);
  expect(read === null || read.broker === '#a').toBe(true);
});

describe('a topic with delivery mq', () => {
  const to = { broker: 'main', to: 'orders' };
  const policy = (...names: string[]) => ({
    refusesUrl: () => null,
    brokers: new Map(names.map((name) => [name, null])),
    hooks: new Set<string>(),
    historyMs: 86_400_000,
  });
  const parse = (json: object, ...names: string[]) => parseTopicInput(json, policy(...names), true);
  function errorsOf(json: object, ...names: string[]) {
    const parsed = parse({ delivery: 'mq', ...json }, ...names);
    return parsed.ok ? [] : parsed.error.errors.map(({ field, message }) => `${field}: ${message}`);
  }

  it('takes a broker, a place, a key, and the fields of limits and retries', () => {
    const more = { headers: { tenant: 'a' }, timeout: '1s', concurrency: 2, rate: 5, maxAttempts: 3 };
    const parsed = parse({ delivery: 'mq', target: { ...to, key: 'k' }, ...more }, 'main');
    expect(parsed).toMatchObject({ ok: true, input: { settings: { target: { ...to, key: 'k' } } } });
  });

  it.each([
    [{}, ['main'], ['target: is needed with delivery "mq"; give a broker']],
    [{ target: null }, ['main'], ['target: is needed with delivery "mq"']],
    [{ target: 'main/orders' }, ['main'], ['target: must be an object such as {"broker"']],
    [
      { target: { broker: 'other', to: 'q' } },
      ['b', 'a'],
      ['target.broker: must be a name of brokers in the configuration of dq: b, a'],
    ],
    [
      { target: to },
      [],
      ['target.broker: no broker is configured; add one to brokers in the configuration of dq, and reload'],
    ],
    [{ target: { broker: 'main' } }, ['main'], ['target.to: must be a string']],
    [{ target: { ...to, to: '' } }, ['main'], ['target.to: must not be empty']],
    [{ target: { ...to, to: '路'.repeat(86) } }, ['main'], ['target.to: must be at most 255 bytes, not 258']],
    [{ target: { ...to, key: 'a\nb' } }, ['main'], ['target.key: must be text without control characters']],
    [{ target: { ...to, key: 5 } }, ['main'], ['target.key: must be a string']],
    [{ target: { ...to, queue: 'q' } }, ['main'], ['target.queue: unknown member; write broker, to, key']],
    [
      { target: to, format: 'form' },
      ['main'],
      ['format: delivery "mq" publishes the body as pushed; use format "raw"'],
    ],
    [{ target: to, backoff: ['0s'] }, ['main'], ['backoff: a wait of 0s needs delivery "pull"']],
    [
      { target: to, callbackUrl: 'http://h/', method: 'PUT', retryIf: '{res.a}==1', okStatus: ['204'] },
      ['main'],
      ['callbackUrl', 'method', 'retryIf', 'okStatus'].map(
        (name) => `${name}: not used with delivery "mq"; leave it out`,
      ),
    ],
    [
      { target: to, emptyReply: 'retry', dangerouslySkipTlsVerify: true },
      ['main'],
      ['dangerouslySkipTlsVerify: not used', 'emptyReply: not used'],
    ],
    [
      { delivery: 'push', callbackUrl: 'http://h/', target: to },
      ['main'],
      ['target: not used with delivery "push"'],
    ],
    [{ delivery: 'pull', target: to }, ['main'], ['target: not used with delivery "pull"']],
  ])('rejects %j', (json, names, messages) => {
    const errors = errorsOf(json, ...names);
    expect(errors).toEqual(messages.map((message) => expect.stringContaining(message)));
  });

  it('never repeats a URL that was given as the name of a broker', () => {
    const errors = errorsOf({ target: { broker: 'amqp://u:s3cret@h', to: 'q' } }, 'main');
    expect(errors.join()).not.toContain('s3cret');
  });

  it('drops the fields that a changed delivery does not use', () => {
    const called = {
      ...topicDefaults,
      ...{ callbackUrl: 'http://h/', method: 'PUT' as const, retryIf: '{res.a}==1', rate: 5 },
    };
    const published = withDelivery(called, 'mq');
    expect(published).toMatchObject({
      delivery: 'push',
      callbackUrl: '',
      method: 'POST',
      retryIf: '',
      rate: 5,
    });
    const again = withDelivery({ ...published, delivery: 'mq', target: { ...to, key: null } }, 'push');
    expect(again.target.broker).toBe('');
  });

  it('is printed with its target, and others with null', () => {
    const topic = {
      ...topicDefaults,
      topic: 'a',
      state: 'active',
      secrets: [],
      revision: 1,
      createdAt: 0,
      updatedAt: 0,
    } as const;
    expect(topicJson({ ...topic, delivery: 'mq', target: { ...to, key: null } }, true)['target']).toEqual({
      ...to,
      key: null,
    });
    expect(topicJson(topic, true)['target']).toBeNull();
    expect(originOf({ ...topic, delivery: 'mq', target: { ...to, key: null } })).toBe('broker:main');
  });
});
