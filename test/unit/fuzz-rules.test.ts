import { expect, it } from 'vitest';
import { fuzzRules } from '../../scripts/fuzz-rules.ts';

it('random rules and replies: only parse errors and consistent booleans', () => {
  const untouched = Reflect.ownKeys(Object.prototype);
  const report = fuzzRules(3_000, 20_260_101);
  expect(report.failures).toEqual([]);
  // The generator covers everything, else the run above proves nothing.
  expect(report.parsed).toBeGreaterThan(900);
  expect(report.rejected).toBeGreaterThan(900);
  expect(report.retries).toBeGreaterThan(300);
  expect(Reflect.ownKeys(Object.prototype)).toEqual(untouched);
});
