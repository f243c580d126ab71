// Tests the validation of every topic field.
import { describe, expect, it } from 'vitest';
import { createEgressPolicy } from '../../src/core/egress-policy.ts';
import { completeSettings, parseTopicInput, topicJson } from '../../src/core/topic/settings.ts';
import type { Topic } from '../../src/core/topic/topic.ts';

const egress = createEgressPolicy({
  policy: 'private',
  allow: [],
  deny: ['10.9.0.0/16'],
  own: [{ address: '127.0.0.1', port: 6789 }],
  localAddresses: () => [],
});
const policy = {
  refusesUrl: egress.refusesUrl,
  brokers: new Map([['main', null]]),
  hooks: new Set(['ops', 'shop']),
  historyMs: 86_400_000,
};
const parse = (json: unknown, complete = false) => parseTopicInput(json, policy, complete);

/** The rejected fields, or the settings. */
function fieldsOf(json: unknown): readonly string[] | object {
  const parsed = parse(json);
  return parsed.ok ? parsed.input.settings : parsed.error.errors.map(({ field }) => field);
}

describe('callbackUrl', () => {
  it.each([
    ['http://a.example/{id}', 'dq fills in no placeholder'],
    ['http://unix:/run/app.sock', 'dq calls no Unix socket'],
  ])('%s is rejected with the reason', (callbackUrl, reason) => {
    const parsed = parse({ callbackUrl });
    expect(parsed.ok ? '' : parsed.error.errors[0]?.message).toContain(reason);
  });

  it('a host with the name unix is kept', () => {
    expect(fieldsOf({ callbackUrl: 'http://unix:80/' })).toEqual({ callbackUrl: 'http://unix/' });
  });

  it.each([
    ['http://a.example/x?y=1', 'http://a.example/x?y=1'],
    ['HTTP://A.example:80/%7e', 'http://a.example/%7e'],
    ['https://订单.example/路', 'https://xn--4kr132k.example/%E8%B7%AF'],
    ['http://0x7f.1:9000/', 'http://127.0.0.1:9000/'],
    ['http://[::1]:9000', 'http://[::1]:9000/'],
    ['http://10.0.0.1/', 'http://10.0.0.1/'],
  ])('%s is kept as %s', (given, kept) => {
    expect(fieldsOf({ callbackUrl: given })).toEqual({ callbackUrl: kept });
  });

  it.each([
    5,
    '',
    'a.example',
    '//a.example',
    'ftp://a.example/',
    'file:///etc/passwd',
    'javascript:1',
    'http://',
    'http://u@a.example/',
    'http://:p@a.example/',
    'http://a.example/#x',
    'http://a.example:0/',
    'http://a.example:65536/',
    ' http://a.example/',
    'http://a.example/\n',
    'http://a\t.example/',
    `http://a.example/${'x'.repeat(2_040)}`,
    `http://a.example/${'路'.repeat(300)}`,
    'http://127.0.0.1:6789/',
    'http://localhost:6789/v1',
    'http://10.9.1.1/',
    'http://169.254.169.254/',
    'http://[::ffff:169.254.169.254]/',
    'http://0.0.0.0/',
    'http://a.example/{id}',
    'http://a.example/?id={{id}}',
    'http://{tenant}.a.example/',
    'http://unix:/run/app.sock',
    'HTTP://unix:/run/app.sock:/path',
  ])('%s is rejected', (callbackUrl) => {
    expect(fieldsOf({ callbackUrl })).toEqual(['callbackUrl']);
  });

  it('null is rejected where dq calls the topic', () => {
    const parsed = parse({ callbackUrl: null }, true);
    expect(parsed.ok ? [] : parsed.error.errors.map(({ field }) => field)).toEqual(['callbackUrl']);
  });
});

describe('headers', () => {
  it('headers: names become lower case', () => {
    expect(fieldsOf({ headers: { 'X-Shop': 'a b', Authorization: 'Basic =' } })).toEqual({
      headers: { 'x-shop': 'a b', authorization: 'Basic =' },
    });
  });

  it.each([
    ['Host', '1'],
    ['content-length', '1'],
    ['Content-Type', '1'],
    ['connection', '1'],
    ['Transfer-Encoding', '1'],
    ['webhook-id', '1'],
    ['Webhook-Anything', '1'],
    ['dq-x', '1'],
    ['user-agent', '1'],
    ['accept-encoding', '1'],
    ['a b', '1'],
    ['', '1'],
    ['x:', '1'],
    ['x\r\ny', '1'],
    ['ü', '1'],
    ['x', 'a\r\nb: c'],
    ['x', ' a'],
    ['x', 'a '],
    ['x', 'ü'],
    ['x', 5],
    ['x', null],
    ['x', 'y'.repeat(1_025)],
  ])('%s: %s is rejected under its name', (name, value) => {
    expect(fieldsOf({ headers: { [name]: value } })).toEqual([`headers.${name}`]);
  });

  it('headers: rejects two spellings of a name and __proto__', () => {
    expect(fieldsOf({ headers: { 'x-a': '1', 'X-A': '2' } })).toEqual(['headers.X-A']);
    expect(fieldsOf(JSON.parse('{"headers":{"__proto__":"1"}}'))).toEqual(['headers.__proto__']);
    expect(({} as Record<string, unknown>)['1']).toBeUndefined();
  });
});

describe('the other fields', () => {
  it.each([
    [{ backoff: ['1s', '11d', 60] }, ['backoff[1]', 'backoff[2]']],
    [{ backoff: { type: 'exponential', base: '0s', factor: 2, cap: '1m' } }, ['backoff.base']],
    [
      { backoff: ['15', '30s', 60], delay: 30, timeout: '3' },
      ['delay', 'timeout', 'backoff[0]', 'backoff[2]'],
    ],
    [{ backoff: { type: 'exponential', base: '1h', factor: 2, cap: '1m' } }, ['backoff.cap']],
    [{ backoff: { type: 'linear' } }, ['backoff']],
    [{ okStatus: ['2xx', 200, '299 '] }, ['okStatus[1]', 'okStatus[2]']],
    [{ alertEmails: ['a@b.c', 'a@b.c\r\nBcc: x@y.z', 'a b@c.d'] }, ['alertEmails[1]', 'alertEmails[2]']],
    [{ alertHooks: ['shop', 'nope', 'https://s3cret', 'ops'] }, ['alertHooks[1]', 'alertHooks[2]']],
    [{ title: 'a\nb' }, ['title']],
    [{ owner: '\ud800' }, ['owner']],
    [{ timeout: '99ms' }, ['timeout']],
    [{ timeout: '61s' }, ['timeout']],
    [{ delay: '3651d' }, ['delay']],
    [{ secret: `whsec_${'A'.repeat(31)}=` }, ['secret']],
    [{ secret: `whsec_${'A'.repeat(32)}=` }, ['secret']],
    [{ secret: `whsec_${Buffer.alloc(65).toString('base64')}` }, ['secret']],
    [{ secret: `WHSEC_${'A'.repeat(32)}` }, ['secret']],
    [JSON.parse('{"__proto__":1}'), ['__proto__']],
    [{ constructor: 1, toString: 1 }, ['constructor', 'toString']],
    [[], ['body']],
    [null, ['body']],
    ['x', ['body']],
  ] as const)('%j is rejected under its name', (json, fields) => {
    expect(fieldsOf(json)).toEqual(fields);
  });

  it('deadIf, againIf: a mistake has its position and the name of the field', () => {
    for (const field of ['deadIf', 'againIf'] as const)
      expect(parse({ [field]: '{res.code} == ', againAfter: '1m' })).toMatchObject({
        error: { errors: [{ field, message: expect.any(String), position: expect.any(Number) }] },
      });
  });

  it('deadIf: a rule that is true of two of an empty 502, 503 and 504, at one attempt, is rejected', () => {
    const messageOf = (statuses: string): string =>
      `is true for an empty ${statuses}, so a gateway error would end jobs; compare with ==. For jobs that end at their first failure, use maxAttempts 1 and no deadIf`;
    for (const [deadIf, statuses] of [
      ['{status}>=500', '502 and 503'],
      ['{res.code}!==0', '502 and 503'],
      ['!{res.ok}', '502 and 503'],
      ['{status}!=200', '502 and 503'],
      ['{attempt}>2 && {status}!=200', '502 and 503'],
      ['{attempt}>=100 && {res.code}!==0', '502 and 503'],
      ['{attempt}==1 && {status}>=500', '502 and 503'],
      ['{status}>=500 && {status}!=503', '502 and 504'],
      ['{status}!=200 && {status}!=502', '503 and 504'],
    ] as const)
      expect(parse({ deadIf })).toMatchObject({
        error: { errors: [{ field: 'deadIf', message: messageOf(statuses) }] },
      });
    for (const deadIf of [
      '{status}==400 || {res.code}=="E_ARG"',
      '{attempt}>2 && {res.code}=="E_ARG"',
      '{status}==502',
      '{status}==500 || {status}==504',
      '{res.code}!=0',
    ])
      expect(fieldsOf({ deadIf })).toEqual({ deadIf });
  });

  it('againAfter: a duration, or one reference with a unit; againIf needs it', () => {
    for (const againAfter of ['10m', '{res.retry_in}s', '{header.retry-after}m', '{res.a.0}ms', '0', ''])
      expect(fieldsOf({ againAfter })).toEqual({ againAfter });
    for (const againAfter of [
      '10',
      'soon',
      '{res.a}',
      '{res.a}w',
      '{a}s',
      '{res.a}+1s',
      '{res.a}{res.b}s',
      5,
    ])
      expect(parse({ againAfter })).toMatchObject({
        error: {
          errors: [
            {
              field: 'againAfter',
              message: 'must be a duration such as 10m, or one reference with a unit such as {res.retry_in}s',
            },
          ],
        },
      });
    const callbackUrl = 'http://a.example/';
    expect(parse({ callbackUrl, againIf: '{res.state}=="pending"' }, true)).toMatchObject({
      error: { errors: [{ field: 'againIf', message: 'needs againAfter; give a duration such as 10m' }] },
    });
  });

  it('retryIf: a mistake has its position', () => {
    const parsed = parse({ retryIf: '{res.code} == ' });
    expect(parsed.ok ? [] : parsed.error.errors).toEqual([
      { field: 'retryIf', message: expect.any(String), position: expect.any(Number) },
    ]);
    expect(fieldsOf({ retryIf: '{res.code}!=200' })).toEqual({ retryIf: '{res.code}!=200' });
  });

  it('GET needs format form; the given field is named', () => {
    const url = { callbackUrl: 'http://a.example/' };
    const fields = (json: object) => {
      const parsed = parse({ ...url, ...json }, true);
      return parsed.ok ? [] : parsed.error.errors.map(({ field }) => field);
    };
    expect(fields({ method: 'GET' })).toEqual(['method']);
    expect(fields({ method: 'GET', format: 'raw', jitter: 2 })).toEqual(['jitter', 'method']);
    expect(fields({ method: 'GET', format: 'form' })).toEqual([]);
    expect(fields({ format: 'form' })).toEqual([]);
    expect(fields({ method: 'PUT', format: 'form' })).toEqual([]);
    // A patch is checked with the stored settings.
    expect(fieldsOf({ method: 'GET' })).toEqual({ method: 'GET' });
  });
});

it('rejects times that dq sets and unknown fields, with a suggestion', () => {
  const parsed = parse(
    { callbackUrl: 'http://a.example/', createdAt: 'x', updatedAt: 'x', nope: 1, tiemout: 1 },
    true,
  );
  expect(parsed).toMatchObject({
    ok: false,
    error: {
      errors: [
        { field: 'createdAt', message: 'is set by dq; leave it out' },
        { field: 'updatedAt', message: 'is set by dq; leave it out' },
        { field: 'nope', message: 'unknown field; leave it out' },
        { field: 'tiemout', message: 'unknown field; did you mean timeout?' },
      ],
    },
  });
});

it('topicJson: parsing it returns the same settings', () => {
  const parsed = parse(
    {
      callbackUrl: 'http://a.example/',
      ...{ title: 'x', delay: '90 s', timeout: '1500ms', backoff: ['15s', '3 min', 'PT10M'] },
      ...{ okStatus: ['2xx', '404'] },
      headers: { 'X-A': '1' },
      priority: 'high',
      dangerouslySkipTlsVerify: true,
    },
    true,
  );
  if (!parsed.ok) throw parsed.error;
  const topic: Topic = {
    ...completeSettings(parsed.input),
    topic: 'a',
    state: 'paused',
    secrets: [{ secret: 'whsec_hidden', untilAt: null }],
    revision: 1,
    createdAt: 0,
    updatedAt: 0,
  };
  const { createdAt, updatedAt, ...json } = topicJson(topic, true);
  expect(json).toMatchObject({
    delay: '1m30s',
    timeout: '1s500ms',
    backoff: ['15s', '3m', '10m'],
    headers: { 'x-a': '1' },
  });
  expect([createdAt, updatedAt]).toEqual(['1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z']);
  expect(JSON.stringify(json)).not.toContain('whsec_');
  const again = parse(json, true);
  expect(again).toEqual({
    ok: true,
    input: { topic: 'a', state: 'paused', settings: completeSettings(parsed.input) },
  });
});
