// Shows the options to people: the manual's table, `dq config show`, the file of `dq config init`. All
// derive from the declarations. Masks secrets.

import { formatDuration } from '../core/duration.ts';
import type { Origins } from './cross-checks.ts';
import { variableOf } from './environment.ts';
import { type Config, type Option, type OptionName, options } from './options.ts';
import { formatBytes, type Given } from './parse.ts';

const declared = Object.entries(options) as [OptionName, Option][];

/** The value as dq.yaml would contain it. */
export function formatValue(option: Option, value: unknown): string {
  // A port that is not set.
  if (value === null) return '';
  const isEmpty = value === '' || (Array.isArray(value) && value.length === 0);
  if (option.secret === true && !isEmpty) return '********';
  if (option.kind === 'duration') return formatDuration(Number(value));
  if (option.kind === 'bytes') return formatBytes(Number(value));
  // YAML reads `*` as an alias.
  if (Array.isArray(value))
    return `[${value.map((item) => (/^\w/.test(item) ? item : JSON.stringify(item))).join(', ')}]`;
  return String(value);
}

/** The rows of `dq config show`. */
export function describeConfig(
  config: Config,
  origins: Origins,
): { readonly name: OptionName; readonly value: string; readonly origin: string }[] {
  return declared.map(([name, option]) => ({
    name,
    value: formatValue(option, config[name]),
    origin: origins[name],
  }));
}

/** Kind of an origin: `--port`, `DQ_SERVER__PORT`, `dq.yaml:3:5`, `default`. */
export function sourceOf(origin: string): Given['source'] | 'default' {
  if (origin === 'default') return 'default';
  if (origin.startsWith('-')) return 'flag';
  return /:\d+:\d+$/.test(origin) ? 'file' : 'environment';
}

/** The default for people, without Markdown. */
export function defaultText(option: Option): string {
  return defaultOf(option).replaceAll('`', '');
}

/** The manual's table, Markdown. */
export function renderConfigTable(): string {
  const rows = declared.map(([name, option]) =>
    [
      option.only === 'flag' ? '–' : `\`${name}\``,
      option.flag === undefined ? '' : `\`${option.flag}\``,
      option.only === undefined ? `\`${variableOf(name)}\`` : '–',
      defaultOf(option),
      option.help + (option.only === 'file' ? ' (configuration file only)' : ''),
    ].join(' | '),
  );
  return [
    '| option | flag | environment | default | |',
    '| --- | --- | --- | --- | --- |',
    ...rows.map((row) => `| ${row} |`.replaceAll('|  |', '| |')),
    '',
  ].join('\n');
}

/** A dq.yaml with every option and its default, commented out. */
export function renderConfigFile(): string {
  const lines = ['# Every option of dq with its default. To change an option, remove its #.', ''];
  let group = '';
  for (const [name, option] of declared) {
    if (option.only === 'flag') continue;
    const dot = name.indexOf('.');
    const parent = dot < 0 ? '' : name.slice(0, dot);
    if (parent !== group && parent !== '') lines.push(`${parent}:`);
    group = parent;
    const indent = parent === '' ? '' : '  ';
    const value = option.defaultText === undefined ? formatValue(option, option.default) : '';
    lines.push(
      `${indent}# ${option.help}${option.defaultText === undefined ? '' : `. Default: ${option.defaultText}`}`,
    );
    lines.push(`${indent}# ${name.slice(dot + 1)}: ${value}`.trimEnd());
  }
  return `${lines.join('\n')}\n`;
}

function defaultOf(option: Option): string {
  if (option.defaultText !== undefined) return option.defaultText;
  if (option.only === 'flag') return 'off';
  const text = formatValue(option, option.default);
  return text === '[]' ? 'none' : `\`${text}\``;
}
