// The texts of the console that are found by a code which the compiler does not know: each has one.
import { expect, it } from 'vitest';
import { texts } from '../../src/console/web/words/texts.ts';
import { zhServer } from '../../src/console/web/words/zh-server.ts';
import { capacityCodes } from '../../src/core/capacity-reasons.ts';
import { topicFields } from '../../src/core/topic/fields.ts';
import { apiName } from '../../src/core/topic/settings.ts';

it('each topic field has a label', () => {
  const missing = Object.keys(topicFields)
    .map((name) => `field_${apiName(name)}`)
    .filter((key) => !Object.hasOwn(texts, key));
  expect(missing).toEqual([]);
});

it('each reason of a topic without calls has Chinese sentences', () => {
  const missing = capacityCodes
    .flatMap((code) => [`reason_${code}`, `remedy_${code}`])
    .filter((key) => !Object.hasOwn(zhServer, key));
  expect(missing).toEqual([]);
});
