// Makes the list of topic fields for the console's page, from core/topic/fields.ts. It replaces the
// declaration in console/web/topic-form.ts when the page is built or tested.

import { readFileSync } from 'node:fs';
import type { TopicFormField } from '../src/console/web/topic-form.ts';
import type { TopicField } from '../src/core/topic/field-kinds.ts';
import { topicFields } from '../src/core/topic/fields.ts';
import { apiName, type TopicFieldName } from '../src/core/topic/settings.ts';

export const topicFormFile = /console\/web\/topic-form\.ts$/;

/** The text of that file with the list. */
export function topicFormText(file: string): string {
  const fields = Object.entries(topicFields).flatMap(([key, field]) =>
    formField(apiName(key as keyof typeof topicFields), field),
  );
  return readFileSync(file, 'utf8').replace(
    /export declare const topicForm\b.*/,
    () => `export const topicForm = ${JSON.stringify(fields)};`,
  );
}

function formField(name: TopicFieldName, field: TopicField): readonly TopicFormField[] {
  const { kind, group, form = '', print, schema, usedBy, flag } = field;
  if (group === undefined) return [];
  const look = form.split(' ');
  return [
    {
      name,
      kind,
      byDefault: print === undefined ? field.default : print(field.default),
      group,
      isFirst: look.includes('first'),
      isWide: look.includes('wide'),
      isMono: look.includes('mono'),
      ...(Array.isArray(schema['enum']) ? { choices: schema['enum'] } : {}),
      ...(usedBy === undefined ? {} : { usedBy }),
      ...(flag === undefined ? {} : { flag: flag.replace(/ .*/, '') }),
    },
  ];
}
