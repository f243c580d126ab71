// Tests "did you mean" for an unknown topic or schedule, and the 404 for an empty result of an unknown topic.

import { describe, expect, it } from 'vitest';
import { apiLimits } from '../../src/api/limits.ts';
import { TopicSuggestion } from '../../src/api/routes/topics/topic-suggestion.ts';
import type { TopicBook } from '../../src/registry/topic-book.ts';
import { topicNotFound } from '../../src/use-cases/change-topic.ts';
import { bearer, startIntake, type TestIntake } from '../support/intake.ts';

const callbackUrl = 'http://127.0.0.1:9/';

async function withTopics(...topics: readonly string[]): Promise<TestIntake> {
  const dq = await startIntake();
  for (const topic of topics) await dq.api('POST', '/v1/topics', { topic, callbackUrl, delay: '1h' });
  return dq;
}

describe('404 topic_not_found', () => {
  it('suggests the similar topic on every route that names one', async () => {
    const dq = await withTopics('order.close', 'mail.send');
    const expected = {
      code: 'topic_not_found',
      detail: 'there is no topic "order.clse"; did you mean order.close?',
    };
    expect((await dq.push('order.clse', '1')).body).toMatchObject(expected);
    // Beyond apiLimits.suggestPerSecond in one second there is no suggestion.
    for (const [method, path, body] of [
      ['GET', '/v1/topics/order.clse'],
      ['PATCH', '/v1/topics/order.clse', { delay: '1s' }],
      ['DELETE', '/v1/topics/order.clse'],
      ['POST', '/v1/topics/order.clse/pause'],
      ['GET', '/v1/topics/order.clse/stats'],
      ['GET', '/v1/topics/order.clse/jobs/a'],
      ['DELETE', '/v1/topics/order.clse/jobs/a'],
      ['POST', '/v1/topics/order.clse/jobs/a/run'],
      ['GET', '/v1/dead?topic=order.clse'],
      ['POST', '/v1/dead/requeue', { topic: 'order.clse' }],
      ['POST', '/v1/dead/requeue', { topic: 'order.clse', ids: ['a'] }],
    ] as const)
      expect((await dq.api(method, path, body)).body, path).toMatchObject({ code: expected.code });
    const { body } = await dq.api('POST', '/v1/jobs', [{ topic: 'order.clse', body: 1 }]);
    expect(body.results[0]).toMatchObject({ code: expected.code });
  });

  it('suggests nothing for a dissimilar name', async () => {
    const dq = await withTopics('order.close');
    expect((await dq.push('invoice', '1')).body.detail).toBe('there is no topic "invoice"');
  });

  it('suggests only topics that the token covers', async () => {
    const dq = await withTopics('order.close', 'shop.close');
    const token = await dq.api('POST', '/v1/tokens', {
      name: 'shop',
      scopes: ['push', 'read'],
      topics: ['shop.*', 'order.clse'],
    });
    const detailOf = async (topic: string) => {
      const path = `/v1/topics/${topic}/jobs`;
      const headers = bearer(token.body.token);
      return (await dq.call('POST', path, { headers, body: '1' })).body.detail;
    };
    expect(await detailOf('order.clse')).toBe('there is no topic "order.clse"');
    expect(await detailOf('shop.clse')).toBe('there is no topic "shop.clse"; did you mean shop.close?');
  });
});

describe('404 schedule_not_found', () => {
  it('suggests the similar schedule on every route that names one', async () => {
    const dq = await withTopics('report');
    await dq.api('POST', '/v1/schedules', { name: 'daily', topic: 'report', cron: '@daily' });
    for (const [method, path] of [
      ['GET', '/v1/schedules/dialy'],
      ['POST', '/v1/schedules/dialy/run'],
      ['POST', '/v1/schedules/dialy/pause'],
      ['DELETE', '/v1/schedules/dialy'],
    ] as const)
      expect((await dq.api(method, path)).body, path).toMatchObject({
        code: 'schedule_not_found',
        detail: 'there is no schedule "dialy"; did you mean daily?',
      });
    expect((await dq.api('GET', '/v1/schedules/weekly')).body.detail).toBe('there is no schedule "weekly"');
  });

  it('suggests only schedules of topics that the token covers', async () => {
    const dq = await withTopics('report', 'shop');
    for (const topic of ['report', 'shop'])
      await dq.api('POST', '/v1/schedules', { name: `${topic}-daily`, topic, cron: '@daily' });
    const token = await dq.api('POST', '/v1/tokens', { name: 'shop', scopes: ['read'], topics: ['shop'] });
    const detailOf = async (name: string) =>
      (await dq.call('GET', `/v1/schedules/${name}`, { headers: bearer(token.body.token) })).body.detail;
    expect(await detailOf('reprot-daily')).toBe('there is no schedule "reprot-daily"');
    expect(await detailOf('report-daily')).toBe('there is no schedule "report-daily"');
    expect(await detailOf('shop-dialy')).toBe('there is no schedule "shop-dialy"; did you mean shop-daily?');
  });
});

describe('an empty result', () => {
  it('is 404 for an unknown topic, and empty for a known one', async () => {
    const dq = await withTopics('t');
    for (const [topic, status] of [
      ['t', 200],
      ['none', 404],
    ] as const) {
      for (const [method, path, body] of [
        ['GET', `/v1/dead?topic=${topic}`],
        ['GET', `/v1/jobs?topic=${topic}`],
        ['POST', '/v1/dead/requeue', { topic }],
        ['DELETE', `/v1/dead?topic=${topic}`],
      ] as const)
        expect((await dq.api(method, path, body)).status, `${method} ${path}`).toBe(status);
    }
  });
});

describe('the work for a suggestion', () => {
  function suggestionOf(names: readonly string[], now: () => number) {
    let looks = 0;
    const topics = {
      *all() {
        for (const topic of names) {
          looks += 1;
          yield { topic };
        }
      },
    } as unknown as TopicBook;
    const suggestion = new TopicSuggestion(topics, now);
    return { looks: () => looks, of: (name: string) => suggestion.added(topicNotFound(name), () => true) };
  }

  it('is bounded with many topics', () => {
    const far = suggestionOf(
      Array.from({ length: 50_000 }, (_, n) => `a-much-longer-name-${n}`),
      () => 0,
    );
    far.of('short');
    expect(far.looks()).toBe(apiLimits.suggestLooks + 1);
    const near = suggestionOf(
      Array.from({ length: 50_000 }, (_, n) => String(n).padStart(8, 'x')),
      () => 0,
    );
    near.of('abcdefgh');
    expect(near.looks()).toBe(apiLimits.suggestDistances + 1);
  });

  it('is bounded per second with many requests', () => {
    let now = 0;
    const one = suggestionOf(['order.close'], () => now);
    const made = () =>
      Array.from({ length: 100 }, () => one.of('order.clse')).filter((error) =>
        error.message.endsWith('did you mean order.close?'),
      ).length;
    expect(made()).toBe(apiLimits.suggestPerSecond);
    now = 1_000;
    expect(made()).toBe(apiLimits.suggestPerSecond);
  });
});
