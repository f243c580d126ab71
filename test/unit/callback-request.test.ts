// The requests that receivers written for php-delayqueue get. The expected texts are derived by hand from
// PHP's json_decode(…, true), rawurlencode and php-delayqueue's joining of fields; numbers and nested
// values differ on purpose.
import { describe, expect, it } from 'vitest';
import { createClock } from '../../src/core/calendar.ts';
import { callbackRequest, formFields, writeForm } from '../../src/core/callback-request.ts';

const formOf = (json: string | Buffer) => writeForm(formFields(Buffer.from(json)));

describe('form', () => {
  it.each([
    // one member of each kind
    ['{"a":1,"b":"x"}', 'a=1&b=x'],
    ['{"t":true,"f":false,"n":null,"e":""}', 't=1&f=&n=&e='],
    // numbers as pushed: PHP would make 9.2233720368548E+18, 1, 1000 of them
    ['{"n":9007199254740993}', 'n=9007199254740993'],
    ['{"n":92233720368547758079}', 'n=92233720368547758079'],
    ['{"n":1.0,"m":-0,"o":0.10}', 'n=1.0&m=-0&o=0.10'],
    ['{"n":1e3,"m":1E+3,"o":-1.5e-7}', 'n=1e3&m=1E%2B3&o=-1.5e-7'],
    ['{"n": 7 , "m" :8\n}', 'n=7&m=8'],
    // rawurlencode: letters, digits and - _ . ~ stay
    ['{"s":"AZaz09-_.~"}', 's=AZaz09-_.~'],
    ['{"s":" +&=%"}', 's=%20%2B%26%3D%25'],
    ['{"s":"!*\'();:@$,/?#[]"}', 's=%21%2A%27%28%29%3B%3A%40%24%2C%2F%3F%23%5B%5D'],
    ['{"s":"\\"\\\\<>^`{|}"}', 's=%22%5C%3C%3E%5E%60%7B%7C%7D'],
    ['{"s":"a\\r\\nb\\tc\\u0000\\u007f"}', 's=a%0D%0Ab%09c%00%7F'],
    ['{"s":"返回失败"}', 's=%E8%BF%94%E5%9B%9E%E5%A4%B1%E8%B4%A5'],
    ['{"s":"é\\u00e9😀\\ud83d\\ude00"}', 's=%C3%A9%C3%A9%F0%9F%98%80%F0%9F%98%80'],
    ['{"s":"\\u2028\\u2029"}', 's=%E2%80%A8%E2%80%A9'],
    ['{"s":"a\\ud800b"}', 's=a%EF%BF%BDb'],
    ['{"s":"\\/\\b\\f"}', 's=%2F%08%0C'],
    ['{"s":"true"}', 's=true'],
    ['{"s":"{\\"x\\":1}"}', 's=%7B%22x%22%3A1%7D'],
    // names are encoded in the same way
    ['{"":1}', '=1'],
    ['{"a b":1,"a[b]":2,"a.b":3,"a=b&c":4}', 'a%20b=1&a%5Bb%5D=2&a.b=3&a%3Db%26c=4'],
    ['{"名":"值"}', '%E5%90%8D=%E5%80%BC'],
    ['{"__proto__":1,"constructor":2}', '__proto__=1&constructor=2'],
    // nested values as pushed, with their blanks
    ['{"o":{"b":1.0,"a":[1, 2]}}', 'o=%7B%22b%22%3A1.0%2C%22a%22%3A%5B1%2C%202%5D%7D'],
    ['{"l":[],"o":{}}', 'l=%5B%5D&o=%7B%7D'],
    ['{"o":{"}":"]","\\"":"\\\\"}}', 'o=%7B%22%7D%22%3A%22%5D%22%2C%22%5C%22%22%3A%22%5C%5C%22%7D'],
    ['{"l":[9007199254740993]}', 'l=%5B9007199254740993%5D'],
    // the order of the text, also for names that look like numbers; a repeated name: first place, last value
    ['{"z":1,"10":2,"a":3,"2":4}', 'z=1&10=2&a=3&2=4'],
    ['{"a":1,"b":2,"a":3}', 'a=3&b=2'],
    ['{"a":{"x":1},"\\u0061":null}', 'a='],
    ['{"1":1,"01":2}', '1=1&01=2'],
    // no object, no fields
    ['{}', ''],
    [' {\r\n\t} ', ''],
    ['', ''],
    ['[{"a":1}]', ''],
    ['"a=1"', ''],
    ['5', ''],
    ['null', ''],
    ['a=1&b=2', ''],
    ['{"a":1', ''],
    ['{"a":1}x', ''],
    ['\ufeff{"a":1}', ''],
    [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), ''],
  ])('%s → %s', (json, form) => {
    expect(formOf(json)).toBe(form);
  });

  it('form: a deep or long value needs no stack', () => {
    const deep = `${'[{"a":'.repeat(20_000)}1${'}]'.repeat(20_000)}`;
    expect([...formFields(Buffer.from(`{"d":${deep},"e":1}`))]).toEqual([
      ['d', deep],
      ['e', '1'],
    ]);
    const long = '\\"'.repeat(500_000);
    expect([...formFields(Buffer.from(`{"s":${JSON.stringify(long)}}`))]).toEqual([['s', long]]);
  });

  it('form: PHP and browsers read the pushed values', () => {
    const pushed = { 'a b': 'x&y=z+1', 路: '！', plus: '+', percent: '%41', quote: `'"` };
    expect(Object.fromEntries(new URLSearchParams(formOf(JSON.stringify(pushed))))).toEqual(pushed);
  });
});

const clock = createClock('Asia/Shanghai');
const job = {
  body: Buffer.from('{"order":4711}'),
  ...{ contentType: 'application/json', dueAt: Date.parse('2030-01-31T15:59:59.999Z') },
  ...{ acceptedAt: Date.parse('2029-12-31T16:00:00Z'), failures: 0 },
};
const form = { method: 'POST', format: 'form' } as const;
const get = { method: 'GET', format: 'form' } as const;
const times = 'notify_time=2030-01-31%2023%3A59%3A59&dq_set_time=2030-01-01%2000%3A00%3A00';

describe('callbackRequest', () => {
  it('raw: the pushed body, its content type, the path of the URL', () => {
    const request = callbackRequest(job, { method: 'PUT', format: 'raw' }, '/cb?x=1', clock);
    expect(request).toEqual({ path: '/cb?x=1', body: job.body, contentType: 'application/json' });
    expect(request.body).toBe(job.body);
  });

  it.each(['POST', 'PUT'] as const)('form: %s carries members and times in the body', (method) => {
    const request = callbackRequest(job, { method, format: 'form' }, '/cb?x=1', clock);
    expect({ ...request, body: request.body.toString() }).toEqual({
      path: '/cb?x=1',
      body: `order=4711&${times}`,
      contentType: 'application/x-www-form-urlencoded',
    });
  });

  it('form: a second attempt names the failures before it', () => {
    const bodyOf = (failures: number) =>
      callbackRequest({ ...job, failures }, form, '/', clock).body.toString();
    expect(bodyOf(1)).toBe(`order=4711&${times}&exp_notify_nums=1`);
    expect(bodyOf(9)).toBe(`order=4711&${times}&exp_notify_nums=9`);
  });

  it('form: fields of dq replace those of the body in their places', () => {
    const body = Buffer.from('{"exp_notify_nums":7,"dq_set_time":"x","a":1,"notify_time":{}}');
    const bodyOf = (failures: number) =>
      callbackRequest({ ...job, body, failures }, form, '/', clock).body.toString();
    const [notifyTime, setTime] = times.split('&');
    expect(bodyOf(2)).toBe(`exp_notify_nums=2&${setTime}&a=1&${notifyTime}`);
    expect(bodyOf(0)).toBe(`exp_notify_nums=7&${setTime}&a=1&${notifyTime}`);
  });

  it('form: a body without object sends only the times', () => {
    for (const body of ['', '[1]', 'not json', '7'])
      expect(callbackRequest({ ...job, body: Buffer.from(body) }, form, '/', clock).body.toString()).toBe(
        times,
      );
  });

  it.each([
    ['/cb', `/cb?order=4711&${times}`],
    ['/', `/?order=4711&${times}`],
    ['/cb?key=a+b%20c&flag&x=%e8', `/cb?key=a+b%20c&flag&x=%e8&order=4711&${times}`],
    ['/cb?a=1&', `/cb?a=1&order=4711&${times}`],
    ['/cb?order=1&a=1&%6frder=2&orders=3', `/cb?a=1&orders=3&order=4711&${times}`],
    ['/cb?a?b=/c', `/cb?a?b=/c&order=4711&${times}`],
  ])('GET: %s becomes %s, without a body', (path, sent) => {
    const request = callbackRequest(job, get, path, clock);
    expect(request).toEqual({ path: sent, body: Buffer.alloc(0), contentType: null });
  });
});
