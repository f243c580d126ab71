// SurveyQueue and SurveyPace: one survey at a time, few waiting, rests.

import { expect, it } from 'vitest';
import { storeLimits } from '../../src/store/limits.ts';
import { SurveyPace, SurveyQueue } from '../../src/store/surveys.ts';

it('survey queue: runs one at a time, in order, and rejects the one too many', async () => {
  const queue = new SurveyQueue();
  const ends: (() => void)[] = [];
  const started: number[] = [];
  const survey = (n: number) => () =>
    new Promise<number>((resolve) => {
      started.push(n);
      ends.push(() => resolve(n));
    });
  const runs = Array.from({ length: storeLimits.surveysWaitingMax + 1 }, (_, n) => queue.run(survey(n)));
  await expect(queue.run(survey(99))).rejects.toMatchObject({
    failure: { kind: 'not_stored', code: 'survey_busy' },
  });
  for (const [n, run] of runs.entries()) {
    await expect.poll(() => started.length).toBe(n + 1);
    ends[n]?.();
    expect(await run).toBe(n);
  }
  expect(started).toEqual(runs.map((_, n) => n));
});

it('survey queue: goes on after a failed survey', async () => {
  const queue = new SurveyQueue();
  const failed = queue.run(() => Promise.reject(new Error('failed')));
  const next = queue.run(async () => 'next');
  await expect(failed).rejects.toThrow('failed');
  expect(await next).toBe('next');
});

it('survey pace: rests for three times the duration of a step', async () => {
  const pace = new SurveyPace();
  const began = performance.now();
  while (performance.now() - began < 5);
  const rested = performance.now();
  await pace.rest();
  // A timer of Node runs up to 2 ms early.
  expect(performance.now() - rested).toBeGreaterThanOrEqual(5 * storeLimits.surveyRestPerStep - 2);
});

it('survey pace: a step that waited for others is not rested for', () => {
  const pace = new SurveyPace();
  const rests = [4, 40, 5, 90, 40, 40, 40, 40].map((ms) => pace.restMsAfter(ms));
  expect(rests).toEqual([12, 12, 12, 12, 15, 15, 120, 120]);
});

it('survey pace: a survey that returns no part is given up at its end', async () => {
  await expect(new SurveyPace(0).restOrGiveUp()).rejects.toMatchObject({
    failure: { code: 'survey_too_long' },
  });
  expect(new SurveyPace(10 * storeLimits.surveyMsMax).isOver).toBe(false);
});
