import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { Exit } from '../../src/cli/exit.ts';
import { topicJsonOf, withTopicFlags } from '../../src/cli/topic-flags.ts';

function jsonOf(...args: string[]): Record<string, unknown> {
  const command = withTopicFlags(new Command()).exitOverride();
  command.parse(args, { from: 'user' });
  return topicJsonOf(command.opts());
}

describe('topicJsonOf', () => {
  it('topic flags: only given flags become members', () => {
    expect(jsonOf()).toEqual({});
    expect(jsonOf('--callback', 'http://x/', '--delay', '30m', '--rule', '{res.code}!=200')).toEqual({
      delivery: 'push',
      callbackUrl: 'http://x/',
      delay: '30m',
      retryIf: '{res.code}!=200',
    });
    expect(jsonOf('--method', 'GET', '--format', 'form', '--rate', '5')).toEqual({
      method: 'GET',
      format: 'form',
      rate: 5,
    });
    expect(jsonOf('--max-attempts', '3', '--concurrency', '10', '--jitter', '0.25')).toEqual({
      maxAttempts: 3,
      concurrency: 10,
      jitter: 0.25,
    });
  });

  it('topic flags: pass on an empty rule, which removes the rule', () => {
    expect(jsonOf('--rule', '', '--title', '')).toEqual({ retryIf: '', title: '' });
    expect(jsonOf('--header', '', '--alert', '')).toEqual({ headers: {}, alertEmails: [] });
  });

  it.each([
    ['2n+1', '2n+1'],
    ['15s,3m', ['15s', '3m']],
    ['15s, 3m', ['15s', '3m']],
    ['15s', ['15s']],
    ['["1m"]', ['1m']],
    // Words stay text, whose rejection by the API shows all forms.
    ['exponential', 'exponential'],
    ['PT30M', ['PT30M']],
    ['{"type":"exponential","base":"10s","factor":2,"cap":"1h"}', expect.objectContaining({ factor: 2 })],
  ])('reads the backoff %s', (text, value) => {
    expect(jsonOf('--backoff', text)).toEqual({ backoff: value });
  });

  it('topic flags: collect statuses and headers', () => {
    expect(jsonOf('--ok-status', '2xx,404', '--ok-status', '410')).toEqual({
      okStatus: ['2xx', '404', '410'],
    });
    expect(jsonOf('--header', 'X-Key: a: b', '--header', 'x-b:c')).toEqual({
      headers: { 'x-key': 'a: b', 'x-b': 'c' },
    });
  });

  it('topic flags: collect addresses; an empty one removes all', () => {
    expect(jsonOf('--alert', 'a@b.c, d@e.f', '--alert', 'g@h.i')).toEqual({
      alertEmails: ['a@b.c', 'd@e.f', 'g@h.i'],
    });
    expect(jsonOf('--alert', '')).toEqual({ alertEmails: [] });
  });

  it.each([
    [['--target', 'main/orders'], { delivery: 'mq', target: { broker: 'main', to: 'orders', key: null } }],
    [['--target', 'main/events#k'], { delivery: 'mq', target: { broker: 'main', to: 'events', key: 'k' } }],
    [['--delivery', 'mq'], { delivery: 'mq' }],
    [['--callback', 'http://x/', '--delivery', 'mq'], { delivery: 'mq', callbackUrl: 'http://x/' }],
    [['--pull', '--lease', '5m'], { delivery: 'pull', lease: '5m' }],
  ])('topic flags: %j', (args, json) => {
    expect(jsonOf(...args)).toEqual(json);
  });

  it.each([
    ['--target', 'main'],
    ['--max-attempts', 'many'],
    ['--concurrency', '-1'],
    ['--backoff', '{"type":'],
    ['--header', 'no colon'],
    ['--header', ': empty'],
  ])('rejects %s %j with exit code usage', (flag, text) => {
    expect(() => jsonOf(flag, text)).toThrow(Exit);
  });
});
