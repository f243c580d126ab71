// The command line that the console copies for a topic: flags that `dq topic add` has, quoted for a shell.
import { execFileSync } from 'node:child_process';
import { Command } from 'commander';
import { expect, it } from 'vitest';
import { topicFieldFlags, topicJsonOf, withTopicFlags } from '../../src/cli/topic-flags.ts';
import { topicCommand } from '../../src/console/web/commands.ts';
import type { TopicJson } from '../../src/core/topic/settings.ts';
import { completeSettings, parseTopicInput, topicJson } from '../../src/core/topic/settings.ts';
import type { Topic } from '../../src/core/topic/topic.ts';

const policy = {
  refusesUrl: () => null,
  brokers: new Map([['main', null]]),
  hooks: new Set<string>(),
  historyMs: 86_400_000,
};

/** As dq shows a topic that was registered with these members. */
function registered(input: object): TopicJson {
  const topic = 'vip.recall';
  const parsed = parseTopicInput({ topic, ...input }, policy, true);
  if (!parsed.ok) throw parsed.error;
  return topicJson(
    { ...completeSettings(parsed.input), topic, secrets: [], createdAt: 0, updatedAt: 0 } as unknown as Topic,
    true,
  );
}

const topic = registered({
  title: "it's $HOME `x`",
  callbackUrl: 'https://crm.example.cn/hooks?a=1&b=2',
  headers: { 'x-key': 'a b' },
  delay: '3d',
  retryIf: '{res.code}!=200',
  okStatus: ['2xx', '404'],
  backoff: ['15s', '3m'],
  jitter: 0.1,
  priority: 'high',
});

/** As a shell splits it. */
function words(command: string): string[] {
  const text = execFileSync('sh', ['-c', `printf '%s\\n' ${command}`], { encoding: 'utf8' });
  return text.trimEnd().split('\n');
}

it('topic command: has flags of dq topic add only, and each value survives a shell', () => {
  const [dq, ...parts] = words(topicCommand(topic, true));
  expect([dq, parts[0], parts[1], parts[2]]).toEqual(['dq', 'topic', 'add', 'vip.recall']);
  const flags = Object.values(topicFieldFlags);
  const values = new Map<string, string>();
  for (let n = 3; n < parts.length; n += 2) {
    expect(flags).toContain(parts[n]);
    values.set(parts[n] as string, parts[n + 1] as string);
  }
  expect(values.get('--title')).toBe(topic.title);
  expect(values.get('--callback')).toBe(topic.callbackUrl);
  expect(values.get('--rule')).toBe('{res.code}!=200');
  expect(values.get('--header')).toBe('x-key: a b');
  expect(values.get('--backoff')).toBe('15s,3m');
  expect(values.get('--rate')).toBe('0');
  expect(values.has('--owner')).toBe(false);
});

it('topic command: header values that the session does not see are left out', () => {
  expect(topicCommand(topic, false)).not.toContain('--header');
});

it('topic command: a pull topic has its lease and no field of a call', () => {
  const command = topicCommand({ ...topic, delivery: 'pull', callbackUrl: null, lease: '5m' }, true);
  expect(command).toContain('--delivery pull');
  expect(command).toContain('--lease 5m');
  for (const flag of ['--callback', '--method', '--header', '--rule', '--concurrency', '--rate'])
    expect(command).not.toContain(flag);
});

it.each([
  [{ broker: 'main', to: 'orders', key: null }, 'main/orders'],
  [{ broker: 'main', to: 'events', key: "a.$b'" }, "main/events#a.$b'"],
  [{ broker: 'main', to: 'fan out', key: '' }, 'main/fan out#'],
])('topic command: a topic with the target %j has no field of a call', (target, text) => {
  const published = { ...topic, delivery: 'mq' as const, callbackUrl: null, target };
  const parts = words(topicCommand(published, true));
  expect(parts[parts.indexOf('--target') + 1]).toBe(text);
  for (const flag of ['--header', '--timeout', '--concurrency', '--rate']) expect(parts).toContain(flag);
  for (const flag of ['--delivery', '--callback', '--method', '--rule', '--ok-status', '--empty-reply'])
    expect(parts).not.toContain(flag);
});

// Each delivery with a value that is not the default in every field that it uses.
it.each([
  {
    delivery: 'push',
    callbackUrl: 'https://crm.example.cn/hooks',
    ...{ method: 'PUT', retryIf: '{res.code}!=200', okStatus: ['204'], emptyReply: 'retry' },
    ...{ format: 'message', headers: { 'x-key': 'a b' }, timeout: '5s', concurrency: 3, rate: 7 },
  },
  { delivery: 'pull', callbackUrl: null, lease: '5m' },
  {
    delivery: 'mq',
    callbackUrl: null,
    target: { broker: 'main', to: 'orders', key: null },
    ...{ format: 'message', headers: { 'x-key': 'a b' }, timeout: '5s', concurrency: 3, rate: 7 },
  },
])('topic command: dq registers the topic of delivery $delivery with every value', (settings) => {
  const known = { ...topic, ...settings } as TopicJson;
  const command = withTopicFlags(new Command()).argument('[words...]');
  command.parse(words(topicCommand(known, true)).slice(1), { from: 'user' });
  expect(registered(topicJsonOf(command.opts()))).toMatchObject({
    ...settings,
    title: topic.title,
    backoff: topic.backoff,
  });
});
