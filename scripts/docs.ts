// Writes the parts of README.md and src/manual that derive from the source: the tables of options, of topic fields and of
// metrics, between `<!-- NAME:begin … -->` and `<!-- NAME:end -->`. `npm run docs`; a test compares.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderConfigTable } from '../src/config/show.ts';
import type { TopicField } from '../src/core/topic/field-kinds.ts';
import { topicColumns, topicFields } from '../src/core/topic/fields.ts';
import { apiName } from '../src/core/topic/settings.ts';
import { renderMetricsTable } from '../src/telemetry/metric-declarations.ts';

const root = join(import.meta.dirname, '..');
const parts = {
  configuration: renderConfigTable,
  'topic-fields': renderTopicTable,
  metrics: renderMetricsTable,
};

/** The pages that may hold generated parts, with absolute paths. */
export function pages(): readonly string[] {
  const manual = join(root, 'src/manual');
  const inManual = existsSync(manual) ? readdirSync(manual, { recursive: true, encoding: 'utf8' }) : [];
  return [
    join(root, 'README.md'),
    ...inManual.filter((name) => name.endsWith('.md')).map((name) => join(manual, name)),
  ];
}

/** The page with every part that it has markers of. */
export function withGeneratedParts(page: string): string {
  return Object.entries(parts).reduce(
    (text, [name, render]) =>
      text.replace(sectionOf(name), (_, begin: string, end: string) => `${begin}${render()}${end}`),
    page,
  );
}

/** The parts that no page has markers of. */
export function lostParts(): readonly string[] {
  const all = pages()
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
  return Object.keys(parts).filter((name) => !sectionOf(name).test(all));
}

function sectionOf(name: string): RegExp {
  return new RegExp(`(<!-- ${name}:begin .*-->\\n)[\\s\\S]*?(<!-- ${name}:end -->)`);
}

function renderTopicTable(): string {
  const { topic, ...others } = topicColumns;
  const fields: readonly [string, TopicField][] = [
    ['topic', topic],
    ...Object.entries(topicFields),
    ...Object.entries(others),
  ];
  const rows = fields.map(([key, field]) =>
    [
      `\`${apiName(key, field)}\``,
      field.flag === undefined ? '' : `\`${field.flag.replace(/ .*/, '')}\``,
      field.defaultText ?? defaultOf(field),
      field.bounds,
      field.more === undefined ? field.help : `${field.help}. ${field.more}`,
    ].join(' | '),
  );
  return [
    '| field | flag | default | values | |',
    '| --- | --- | --- | --- | --- |',
    ...rows.map((row) => `| ${row} |`.replaceAll(/\| {2}(?=\|)/g, '| ')),
    '',
  ].join('\n');
}

function defaultOf(field: TopicField): string {
  if (field.default === undefined) return '';
  const value = field.print === undefined ? field.default : field.print(field.default);
  const json = typeof value === 'string' && value !== '' ? value : JSON.stringify(value);
  return `\`${json}\``;
}

if (process.argv[1] === import.meta.filename)
  for (const path of pages()) writeFileSync(path, withGeneratedParts(readFileSync(path, 'utf8')));
