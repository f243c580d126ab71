// Tests how the file of dq apply is read: its mistakes with their places, and its variables.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readTopicsFile } from '../../src/cli/apply/topics-file.ts';
import { formatProblem } from '../../src/config/parse.ts';

const callbackUrl = 'http://127.0.0.1:9000/close';

const read = (text: string, env: Record<string, string> = {}) => {
  const { file, problems } = readTopicsFile(text, 'dq-topics.yaml', env);
  return { file, problems: problems.map(formatProblem) };
};

it.each([
  [
    'a misspelt member',
    `topics:\n  a:\n    callbackUrl: ${callbackUrl}\n    retryif: x`,
    '4:5',
    'retryif: unknown field; did you mean retryIf?',
  ],
  ['a misspelt part', 'topic: {}', '1:1', 'topic: unknown member; did you mean topics?'],
  [
    'a wrong value in a list',
    `topics:\n  a: { delivery: pull, backoff: [1s, 1x] }`,
    '2:38',
    'backoff[1]: unknown unit "x"',
  ],
  [
    'a variable that is not set',
    `topics:\n  a:\n    callbackUrl: ${callbackUrl}\n    secret: \${NOPE}`,
    '4:5',
    'secret: NOPE is not set',
  ],
  [
    'half a variable',
    `topics:\n  a: { callbackUrl: "http://\${HOST/" }`,
    '2:8',
    `callbackUrl: "\${" begins a variable`,
  ],
  ['a schedule without a topic', 'schedules:\n  s: { every: 1h }', '2:3', 'topic: is required'],
  [
    'a misspelt member of a schedule',
    'schedules:\n  s: { topic: a, evry: 1h }',
    '2:18',
    'evry: unknown field; did you mean every?',
  ],
  [
    'a wrong choice',
    'schedules:\n  s: { topic: a, every: 1h, missed: all }',
    '2:29',
    'missed: must be one of skip, last',
  ],
  ['a wrong name', 'schedules:\n  -x: { topic: a, every: 1h }', '2:3', 'name: must be 1 to 64 of A-Z'],
  ['a wrong cron', 'schedules:\n  s: { topic: a, cron: "0 9" }', '2:18', 'cron: must have 5 fields'],
  ['a name twice', 'topics:\n  a: { delivery: pull }\n  a: {}', '3:3', 'Map keys must be unique'],
  ['a number as a name', 'topics:\n  007: { delivery: pull }', '2:3', '007: is not a text in YAML; write it'],
  [
    'a number as a name beside the text',
    'schedules:\n  "7": { topic: a, every: 1h }\n  7: { topic: a, every: 1h }',
    '3:3',
    '7: is not a text in YAML',
  ],
  [
    'a number as the name of a header',
    `topics:\n  a: { callbackUrl: "${callbackUrl}", headers: { 1e3: x } }`,
    '2:63',
    '1e3: is not a text in YAML',
  ],
  ['a list as a name', 'topics:\n  ? [a]\n  : {}', '2:5', 'this name: is not a text in YAML'],
  [
    'an empty variable',
    `topics:\n  a: { callbackUrl: "http://\${EMPTY}/x" }`,
    '2:8',
    'callbackUrl: EMPTY is empty',
  ],
  ['an unknown tag', 'topics:\n  a: { title: !vault abc }', '2:15', 'Unresolved tag: !vault'],
  [
    'a tag without JSON',
    'schedules:\n  s: { topic: a, every: 1h, body: !!set { a } }',
    '2:35',
    'Unresolved tag',
  ],
  [
    'a number that JSON lacks',
    'schedules:\n  s: { topic: a, every: 1h, body: [.nan] }',
    '2:36',
    '.nan: would be kept as null; write it in quotes',
  ],
  [
    'a number that would be rounded',
    'schedules:\n  s: { topic: a, every: 1h, body: { n: 12345678901234567890 } }',
    '2:40',
    '12345678901234567890: would be kept as 12345678901234567000; write it in quotes',
  ],
  [
    'another version of YAML',
    '%YAML 1.1\n---\nschedules: { s: { topic: a, every: 1h, body: { m: yes } } }',
    '1:1',
    'must be YAML 1.2',
  ],
  ['an alias', 'topics:\n  a: &x { delivery: pull }\n  b: *x', '3:6', 'aliases are not supported'],
  [
    'a glob that YAML takes for an alias',
    'scope: [*.close]',
    '1:9',
    'aliases are not supported; write the value here, and a glob such as "*.close" in quotes',
  ],
  [
    'a topic outside the scope',
    'scope: [order.*]\ntopics:\n  order.a: { delivery: pull }\n  mail.a: { delivery: pull }',
    '4:3',
    'mail.a is outside the scope of this file',
  ],
  [
    'a schedule of a topic outside the scope',
    'scope: [order.*]\nschedules:\n  s: { topic: mail.a, every: 1h }',
    '3:8',
    'topic: mail.a is outside the scope of this file',
  ],
  ['a list', '- a', '1:1', 'must have the members scope, topics, schedules'],
  ['a scope that is a text', 'scope: order.*', '1:1', 'scope: must be a list of globs'],
])('rejects %s with its place', (_what, text, place, message) => {
  const { problems } = read(text, { EMPTY: '' });
  expect(problems).toEqual([expect.stringContaining(`dq-topics.yaml:${place}  ${message}`)]);
});

it('names every mistake of the file at once', () => {
  const { problems } = read(
    `topics:\n  a: { nope: 1, secret: "\${NOPE}" }\n  b: { rate: x }\nschedules: { s: 1 }\n`,
  );
  expect(problems.map((one) => / {2}(\S+): /.exec(one)?.[1])).toEqual([
    ...['secret', 'nope', 'callbackUrl', 'rate', 'callbackUrl', 's'],
  ]);
});

it('fills in variables in secret, headers and callbackUrl alone', () => {
  const text = `topics:
  a:
    title: "\${HOST}"
    callbackUrl: "http://\${HOST}/\${PATH_}"
    headers: { x: "a$\${b}", y: "\${WORD}" }
schedules:
  s: { topic: "\${HOST}", every: 1h, body: { a: "\${HOST}" } }
`;
  const { file, problems } = read(text, { HOST: 'app.example', PATH_: 'x', WORD: 'w' });
  expect(problems).toEqual([]);
  expect(file.topics[0]?.json).toEqual({
    title: `\${HOST}`,
    callbackUrl: 'http://app.example/x',
    headers: { x: `a\${b}`, y: 'w' },
  });
  expect(file.schedules[0]?.json).toEqual({ topic: `\${HOST}`, every: '1h', body: { a: `\${HOST}` } });
});

it('reads the example of the manual', () => {
  const page = readFileSync(join(import.meta.dirname, '../../src/manual/configuration-as-code.md'), 'utf8');
  const [, text = ''] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  const secret = `whsec_${Buffer.alloc(32).toString('base64')}`;
  const { file, problems } = read(text, { REMIND_SECRET: secret, REMIND_AUTH: 'Bearer x' });
  expect(problems).toEqual([]);
  expect(file).toMatchObject({
    scope: ['order.*'],
    topics: [{ name: 'order.remind', input: { secret } }],
    schedules: [{ name: 'daily', record: { cron: '0 9 * * *', body: '{"kind":"daily"}' } }],
  });
});

it('keeps numbers of a body that JSON writes as they are here', () => {
  const numbers = '[12345678901234567000,1e+300,-0.5,9007199254740991]';
  const { file, problems } = read(`schedules:\n  s: { topic: a, every: 1h, body: ${numbers} }\n`);
  expect(problems).toEqual([]);
  expect(file.schedules[0]?.record.body).toBe(numbers);
});

it.each([
  ['', ['scope', 'topics', 'schedules']],
  ['scope: [a]\ntopics:', ['topics', 'schedules']],
  ['scope: [a]\ntopics: {}\nschedules: {}', []],
])('knows the parts that the file lacks: %j', (text, lacks) => {
  expect(read(text).file.lacks).toEqual(lacks);
});
