// The texts of the console that are found by a code which the compiler does not know: each has one. Their
// values, and the code of a newer version.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { enServer } from '../../src/console/web/words/en-server.ts';
import { codeOf, filled, partsOf } from '../../src/console/web/words/filled.ts';
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

it('each remedy that names a command or a call has words of the page, in both languages', () => {
  const sources = [
    ...['notifier/explain-capacity.ts', 'notifier/notifier.ts', 'core/capacity-reasons.ts'],
    'api/routes/topics/capacity-route.ts',
  ].map((file) => readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8'));
  const remedies = sources.flatMap((text) => [
    ...text.matchAll(/code: '(\w+)',(?:(?!code:).)*?remedy:\s*(['`])((?:(?!\2).)*)\2/gs),
  ]);
  const speak = remedies.filter(([, , , remedy = '']) => /\bdq [a-z]+ ?|\b(?:GET|PUT) \//.test(remedy));
  const keys = [...new Set(speak.map(([, code]) => `remedy_${code}`))];
  expect(keys.length).toBeGreaterThan(15);
  expect(keys.filter((key) => !Object.hasOwn(enServer, key))).toEqual([]);
  const own = [...Object.entries(enServer), ...Object.entries(zhServer)];
  expect(own.filter(([key, text]) => key.startsWith('remedy_') && /\bdq [a-z]/.test(text))).toEqual([]);
});

it('a code without a text is shown without the prefix of its key', () => {
  expect(codeOf('flow_new_event')).toBe('new_event');
});

it('Chinese: the reason of an unavailable store has the counts and the cause where the server sent them', () => {
  const reason = (values: Record<string, string | number>) =>
    filled(zhServer.reason_store_unavailable, { code: 'disk_full', ...values });
  expect(reason({ failing: 1, partitions: 4 })).toBe(
    '存储不可用（disk_full），1/4 个分区最近一次领取任务失败',
  );
  expect(reason({ why: 'no space' })).toBe('存储不可用（disk_full）：no space');
});

it('no text has a bracket, which would make a part of it optional', () => {
  expect(Object.values(texts).filter((one) => /[[\]]/.test(one.join('')))).toEqual([]);
});

it.each([1, 2])('no text shows a brace when its values are %i, whole or in parts', (value) => {
  const all = [...Object.values(texts).flat(), ...Object.values(zhServer)];
  const shown = all.flatMap((text) => {
    const values = Object.fromEntries([...text.matchAll(/\{(\w+)/g)].map(([, name = '']) => [name, value]));
    const parts = partsOf(text, values).map((part, n) => (n % 2 === 0 ? part : String(values[part])));
    return [filled(text, values), parts.join('')];
  });
  expect(shown.filter((text) => /[{}]/.test(text))).toEqual([]);
});
