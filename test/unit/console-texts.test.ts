// The texts of the console that are found by a code which the compiler does not know: each has one. Their
// values, and the code of a newer version.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { options } from '../../src/config/options.ts';
import { enServer } from '../../src/console/web/words/en-server.ts';
import { texts } from '../../src/console/web/words/texts.ts';
import { zhDoctor } from '../../src/console/web/words/zh-doctor.ts';
import { zhOptions } from '../../src/console/web/words/zh-options.ts';
import { zhReasons } from '../../src/console/web/words/zh-reasons.ts';
import { zhServer } from '../../src/console/web/words/zh-server.ts';
import { capacityCodes } from '../../src/core/capacity-reasons.ts';
import { codeOf, filled, partsOf } from '../../src/core/filled.ts';
import { checkNames, type FindingCode, findingTexts } from '../../src/core/finding.ts';
import { type FieldGroup, fieldGroups } from '../../src/core/topic/field-kinds.ts';
import { topicFields } from '../../src/core/topic/fields.ts';
import { apiName } from '../../src/core/topic/settings.ts';

it('each topic field has a group, and those of a group stand together in the order of the groups', () => {
  const order = Object.keys(fieldGroups);
  const places = Object.values(topicFields).map(({ group }) => order.indexOf(group ?? ''));
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(new Set(places)).toEqual(new Set(order.keys()));
});

it('each group of topic fields is named in the console as in the help', () => {
  const shown = Object.keys(fieldGroups).map((group) => texts[`group_${group as FieldGroup}`][0]);
  expect(shown).toEqual(Object.values(fieldGroups));
});

it('each topic field has a label', () => {
  const missing = Object.keys(topicFields)
    .map((name) => `field_${apiName(name)}`)
    .filter((key) => !Object.hasOwn(texts, key));
  expect(missing).toEqual([]);
});

it.each([
  [
    'reason why jobs are not called',
    zhReasons,
    capacityCodes.flatMap((code) => [`reason_${code}`, `remedy_${code}`]),
  ],
  ['option', zhOptions, Object.keys(options).map((name) => `option_${name}`)],
  [
    'check and finding of doctor',
    zhDoctor,
    [
      ...checkNames.map((name) => `check_${name}`),
      ...Object.keys(findingTexts).map((code) => `finding_${code}`),
    ],
  ],
])('each %s has a Chinese text, and no text is left over', (_what, own, keys) => {
  expect(Object.keys(own).toSorted()).toEqual(keys.toSorted());
});

it('doctor: each finding has its values in Chinese, too', () => {
  const namesIn = (text: string) => [...new Set(text.match(/\{\w+\}/g))].toSorted();
  for (const [code, text] of Object.entries(findingTexts))
    expect(namesIn(zhDoctor[`finding_${code as FindingCode}`]), code).toEqual(namesIn(text));
});

it('doctor: each finding is made by a check', () => {
  const folder = new URL('../../src/doctor/', import.meta.url);
  const checks = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), 'utf8'));
  const unused = Object.keys(findingTexts).filter(
    (code) => !checks.some((text) => text.includes(`'${code}'`)),
  );
  expect(unused).toEqual([]);
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
  const own = [...Object.entries(enServer), ...Object.entries(zhReasons)];
  expect(own.filter(([key, text]) => key.startsWith('remedy_') && /\bdq [a-z]/.test(text))).toEqual([]);
});

it('a code without a text is shown without the prefix of its key', () => {
  expect(codeOf('flow_new_event')).toBe('new_event');
});

it('Chinese: the reason of an unavailable store has the counts and the cause where the server sent them', () => {
  const reason = (values: Record<string, string | number>) =>
    filled(zhReasons.reason_store_unavailable, { code: 'disk_full', ...values });
  expect(reason({ failing: 1, partitions: 4 })).toBe(
    '存储不可用（disk_full），1/4 个分区最近一次领取任务失败',
  );
  expect(reason({ why: 'no space' })).toBe('存储不可用（disk_full）：no space');
});

it('no text has a bracket, which would make a part of it optional', () => {
  expect(Object.values(texts).filter((one) => /[[\]]/.test(one.join('')))).toEqual([]);
});

it.each([1, 2])('no text shows a brace when its values are %i, whole or in parts', (value) => {
  const served = [zhServer, zhReasons, zhDoctor, findingTexts].flatMap((part) => Object.values<string>(part));
  const all = [...Object.values(texts).flat(), ...served];
  const shown = all.flatMap((text) => {
    const values = Object.fromEntries([...text.matchAll(/\{(\w+)/g)].map(([, name = '']) => [name, value]));
    const parts = partsOf(text, values).map((part, n) => (n % 2 === 0 ? part : String(values[part])));
    return [filled(text, values), parts.join('')];
  });
  expect(shown.filter((text) => /[{}]/.test(text))).toEqual([]);
});
