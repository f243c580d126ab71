// Tests what the API says about a path that it does not have.
import { describe, expect, it } from 'vitest';
import { KnownPaths } from '../../src/api/http/known-paths.ts';

describe('a path that is not known', () => {
  const paths = new KnownPaths();
  for (const url of [
    '/readyz',
    '/metrics',
    '/v1/topics',
    '/v1/topics/:topic',
    '/v1/topics/:topic/jobs',
    '/v1/topics/:topic/jobs/:id',
    '/v1/dead',
    '/v1/jobs',
  ])
    paths.add('GET', url);

  it.each([
    ['/v1/topics/a/job', '/v1/topics/a/jobs'],
    ['/topics/a/jobs', '/v1/topics/a/jobs'],
    ['/v2/topics/a/jobs', '/v1/topics/a/jobs'],
    ['/v1/queues/a/messages', '/v1/topics/a/jobs'],
    ['/v1/topic/a/jobs/4711', '/v1/topics/a/jobs/4711'],
    ['/v1/dlq', '/v1/dead'],
    ['/health', '/readyz'],
    ['/metric', '/metrics'],
    ['/v1/frobnicate', null],
    ['/v1/topics//jobs', null],
    ['/', null],
  ])('%s: %j', (path, meant) => {
    expect(paths.nearestTo(path)).toBe(meant);
  });
});
