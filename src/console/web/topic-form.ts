// The topic fields as the page knows them. The build writes the list of core/topic/fields.ts into this file
// (scripts/topic-form.ts), because that table has the parsers of all fields, which a page does not need.

import type { FieldGroup } from '../../core/topic/field-kinds.ts';
import type { TopicFieldName } from '../../core/topic/settings.ts';

export type Delivery = 'push' | 'pull' | 'mq';

/** One topic field. */
export interface TopicFormField {
  /** in the API's JSON; its label is `field_<name>` of words/texts.ts */
  readonly name: TopicFieldName;
  /** how its text is read: `list` is separated by commas, `headers` has lines `name: value` */
  readonly kind: 'text' | 'number' | 'boolean' | 'list' | 'headers' | 'backoff' | 'target';
  /** the values of a choice */
  readonly choices?: readonly string[];
  /** as the API prints it */
  readonly byDefault: unknown;
  readonly group: FieldGroup;
  /** before the groups */
  readonly isFirst: boolean;
  readonly isWide: boolean;
  /** a code, not words */
  readonly isMono: boolean;
  /** deliveries that use it; each when absent */
  readonly usedBy?: readonly Delivery[];
  /** of `dq topic add` */
  readonly flag?: string;
}

export declare const topicForm: readonly TopicFormField[];

/** In the order of the table. */
export const groups: readonly FieldGroup[] = [...new Set(topicForm.map(({ group }) => group))];

export const isUsed = ({ usedBy }: Pick<TopicFormField, 'usedBy'>, delivery: Delivery): boolean =>
  usedBy?.includes(delivery) ?? true;
