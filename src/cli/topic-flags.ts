// Makes the flags of `dq topic add` and `set` from core/topic/fields.ts, and the API JSON from their values.
// The API validates the values, so that rules and wording exist once. Omits flags that were not given.

import { type Command, Option } from 'commander';
import { backoffJson } from '../core/topic/backoff.ts';
import { fieldGroups, type TopicField } from '../core/topic/field-kinds.ts';
import { topicColumns, topicFields } from '../core/topic/fields.ts';
import { apiName } from '../core/topic/settings.ts';
import { targetJson } from '../core/topic/target.ts';
import type { FlagNames } from './daemon/api-client.ts';
import { Exit } from './exit.ts';
import { gather, headersOf } from './flags.ts';

/** The values of the flags by commander's names, which follow from core/topic/fields.ts. */
export interface TopicFlags {
  readonly callback?: string;
  readonly pull?: boolean;
  readonly rule?: string;
  readonly deadIf?: string;
  readonly againIf?: string;
  readonly target?: string;
}

interface FieldFlag {
  /** in the API's JSON */
  readonly name: string;
  readonly field: TopicField;
  readonly option: Option;
}

const fieldFlags: readonly FieldFlag[] = Object.entries(topicFields).flatMap(
  ([key, field]: [string, TopicField]) => {
    if (field.flag === undefined) return [];
    const isRepeatable = field.kind === 'list' || field.kind === 'headers';
    const option = inGroup(
      field,
      new Option(field.flag, isRepeatable ? `${field.help}; repeatable` : field.help),
    );
    if (isRepeatable) option.argParser(gather);
    return [{ name: apiName(key), field, option }];
  },
);

function inGroup({ group }: TopicField, option: Option): Option {
  return group === undefined ? option : option.helpGroup(`${fieldGroups[group]}:`);
}

const fieldsByName: ReadonlyMap<string, TopicField> = new Map(
  Object.entries(topicFields).map(([key, field]) => [apiName(key), field]),
);

/** The field with this name in the API's JSON; undefined: of another member. */
export const fieldOf = (name: string): TopicField | undefined => fieldsByName.get(name);

/** Flags by API field name. */
export const topicFieldFlags: FlagNames = Object.fromEntries(
  [
    ...fieldFlags.map(({ name, option }) => [name, option]),
    ['secret', new Option(topicColumns.secret.flag)],
  ].map(([name, option]) => [name, (option as Option).long]),
);

export function withTopicFlags(command: Command): Command {
  for (const { option } of fieldFlags) command.addOption(option);
  const pull = new Option('--pull', 'the same as --delivery pull');
  return command.addOption(inGroup(topicFields.delivery, pull));
}

export function topicJsonOf(flags: TopicFlags): Record<string, unknown> {
  const values = flags as Readonly<Record<string, unknown>>;
  const json: Record<string, unknown> = {};
  if (flags.pull === true) json['delivery'] = 'pull';
  else if (flags.target !== undefined) json['delivery'] = 'mq';
  else if (flags.callback !== undefined) json['delivery'] = 'push';
  for (const { name, field, option } of fieldFlags) {
    const value = values[option.attributeName()];
    if (value !== undefined) json[name] = jsonOf(field.kind, option.long ?? '', value);
  }
  return json;
}

function jsonOf(kind: TopicField['kind'], flag: string, value: unknown): unknown {
  switch (kind) {
    case 'text':
    case 'boolean':
      return value;
    case 'number':
      return numberOf(flag, value as string);
    case 'list':
      return (value as readonly string[]).flatMap(listOf).filter((item) => item !== '');
    case 'headers':
      return headersOf((value as readonly string[]).filter((text) => text !== ''));
    case 'backoff':
      return backoffOf(flag, value as string);
    case 'target':
      return targetOf(flag, value as string);
  }
}

function listOf(text: string): string[] {
  return text.split(',').map((item) => item.trim());
}

function numberOf(flag: string, text: string): number {
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Number(text);
  throw new Exit('usage', `${flag}: invalid number "${text}"; write digits`);
}

function targetOf(flag: string, text: string): unknown {
  const target = targetJson(text);
  if (target !== null) return target;
  throw new Exit('usage', `${flag}: invalid target "${text}"; write BROKER/QUEUE or BROKER/EXCHANGE#KEY`);
}

export function backoffOf(flag: string, text: string): unknown {
  try {
    return backoffJson(text);
  } catch (error) {
    throw new Exit('usage', `${flag}: invalid JSON (${(error as Error).message})`, { cause: error });
  }
}
