// Settings of a topic: a form over the API's fields, the rule tester and the retry schedule beside it. Sends only
// the members that were changed; dq checks them, and its errors appear at their fields.

import { type ComponentChildren, Fragment } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ReplyOf } from '../../../contract/api/schema.ts';
import type { TopicPreviewJson, testRuleSchema } from '../../../contract/api/topic.ts';
import type { FieldGroup } from '../../../core/topic/field-kinds.ts';
import type { TopicFieldName, TopicJson } from '../../../core/topic/settings.ts';
import { CallError, call, type FieldError, topicPath } from '../api/call.ts';
import { brokers, retryUnitMs } from '../api/session.ts';
import { waitsOf } from '../backoff-waits.ts';
import { Ladder } from '../charts/ladder.tsx';
import { dots, duration } from '../format.ts';
import { ask, useLeaveCheck } from '../parts/dialog.tsx';
import { Field, Form, Missing, requiredLabel, usePreview } from '../parts/form.tsx';
import {
  Button,
  Card,
  Code,
  errorText,
  type Fact,
  Facts,
  Failure,
  Head,
  Pill,
  toast,
} from '../parts/parts.tsx';
import { go, href } from '../router.ts';
import { type Delivery, groups, isUsed, type TopicFormField, topicForm } from '../topic-form.ts';
import { t, wordOf } from '../words/words.ts';
import { TestCallCard } from './test-call.tsx';
import { SecretOnce } from './topic-actions.tsx';

type Values = Readonly<Record<string, string>>;

/** A topic field in the form: the members of `target` have an input each. */
interface FormField extends Omit<TopicFormField, 'name' | 'kind'> {
  readonly name: Exclude<TopicFieldName, 'target'> | TargetMember;
  readonly kind: TopicFormField['kind'] | 'broker';
}

/** Members of the topic's `target`. */
const targetMembers = ['broker', 'to', 'key'] as const;
type TargetMember = (typeof targetMembers)[number];
const isOfTarget = ({ name }: FormField) => (targetMembers as readonly string[]).includes(name);

const fields: readonly FormField[] = topicForm.flatMap(({ name, ...field }): readonly FormField[] =>
  name === 'target'
    ? targetMembers.map((member) => ({
        ...field,
        name: member,
        kind: member === 'broker' ? 'broker' : 'text',
      }))
    : [{ ...field, name }],
);

const deliveryOf = (values: Values) => (values['delivery'] ?? 'push') as Delivery;
const isShown = (field: FormField, values: Values): boolean => isUsed(field, deliveryOf(values));

/** The text of a member in its field. */
function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const headersText = (headers: object): string =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n');

/** A line without a colon goes as it is: dq names the mistake. */
function headersOf(text: string): unknown {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (lines.some((line) => !line.includes(':'))) return text;
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).trim(), line.slice(line.indexOf(':') + 1).trim()]),
  );
}

const fieldText = ({ kind }: FormField, value: unknown): string =>
  kind === 'headers' ? headersText(Object(value)) : textOf(value);

const valuesOf = (topic: TopicJson): Values =>
  Object.fromEntries(
    fields.map((field) => [
      field.name,
      fieldText(field, { ...topic, ...topic.target }[field.name as keyof TopicJson]),
    ]),
  );

const defaults: Values = Object.fromEntries(
  fields.map((field) => [field.name, fieldText(field, field.byDefault)]),
);

const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

/** The member that a field's text means. A text that is no number goes as it is: dq names the mistake. */
function memberOf({ kind }: Pick<FormField, 'kind'>, text: string): unknown {
  if (kind === 'list') return listOf(text);
  if (kind === 'headers') return headersOf(text);
  if (kind === 'boolean') return text === 'true';
  if (kind === 'number') return text.trim() === '' || Number.isNaN(Number(text)) ? text : Number(text);
  if (kind !== 'backoff') return text;
  if (text.trim().startsWith('{')) return readObject(text);
  return text.includes(',') || /^\d+(ms|s|m|h|d)/.test(text) ? listOf(text) : text.trim();
}

function readObject(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const changedFields = (before: Values, now: Values): readonly FormField[] =>
  fields.filter((field) => isShown(field, now) && (before[field.name] ?? '') !== (now[field.name] ?? ''));

function membersOf(given: readonly FormField[], values: Values): Readonly<Record<string, unknown>> {
  const members = given
    .filter((field) => !isOfTarget(field))
    .map((field) => [field.name, memberOf(field, values[field.name] ?? '')] as const);
  const { broker = '', to = '', key = '' } = values;
  const target = given.some(isOfTarget)
    ? [['target', { broker, to, key: key === '' ? null : key }] as const]
    : [];
  return Object.fromEntries([...members, ...target]);
}

/** What dq rejected at the last save. */
interface Rejection {
  readonly errors: readonly FieldError[];
  readonly text: string | null;
}

const noRejection: Rejection = { errors: [], text: null };

function rejectionOf(error: unknown): Rejection {
  const errors = error instanceof CallError ? error.errors : [];
  return {
    errors: errors.filter(({ field }) => field === 'topic' || isField(field)),
    text: errorText(error),
  };
}

/** The form of a topic: the settings that it began with, those that are typed, and the save. */
function useSettings(topic: TopicJson, onSaved: (now: TopicJson) => void) {
  // The topic as it was when the form was opened: polls must not change what is typed.
  const [base, setBase] = useState(() => ({ values: valuesOf(topic), revision: topic.revision }));
  const [values, setValues] = useState(base.values);
  const [rejection, setRejection] = useState(noRejection);
  /** fields that someone else changed meanwhile */
  const [theirs, setTheirs] = useState<readonly FormField[]>([]);
  const changed = changedFields(base.values, values);
  const begin = (next: Values): void => {
    setValues(next);
    setRejection(noRejection);
    setTheirs([]);
  };
  /** What only they changed is taken; what both changed stays as it is typed, and is shown with theirs. */
  const merge = (now: TopicJson): void => {
    const next = valuesOf(now);
    setTheirs(changedFields(base.values, next));
    setBase({ values: next, revision: now.revision });
    setValues({ ...next, ...Object.fromEntries(changed.map(({ name }) => [name, values[name] ?? ''])) });
    setRejection({ ...rejection, text: t('changed_meanwhile') });
  };
  const save = async (): Promise<boolean> => {
    const json = membersOf(changed, values);
    const headers = { 'if-match': `"${base.revision}"` };
    try {
      const saved = await call<TopicJson>('PATCH', topicPath(topic.topic), { json, headers });
      setBase({ values: valuesOf(saved), revision: saved.revision });
      begin(valuesOf(saved));
      onSaved(saved);
      toast(t('saved'));
      return true;
    } catch (error) {
      const now = error instanceof CallError && error.status === 412 ? error.problem['topic'] : undefined;
      if (now) merge(now as TopicJson);
      else setRejection(rejectionOf(error));
      return false;
    }
  };
  return { base, values, setValues, rejection, theirs, changed, discard: () => begin(base.values), save };
}

/** `onSaved`: takes the topic of each save. Without it the form that is opened next would begin with the topic
 *  before the save, and report the save as a change by someone else. */
export function TopicSettings({ topic, onSaved }: { topic: TopicJson; onSaved: (now: TopicJson) => void }) {
  const { base, values, setValues, rejection, theirs, changed, discard, save } = useSettings(topic, onSaved);
  const isUnchanged = changed.length === 0;
  useLeaveCheck(!isUnchanged);
  const draft = { topic: topic.topic, ...membersOf(changed, values) };
  const { data: preview } = usePreview<TopicPreviewJson>('/v1/topics/preview', isUnchanged ? null : draft);
  const [testRuns, setTestRuns] = useState(0);
  const askToSave = (thenTest: boolean): void => {
    const run = async (): Promise<void> => {
      if ((await save()) && thenTest) setTestRuns(testRuns + 1);
    };
    const grave = changed.filter(({ name }) => graveFields.includes(name));
    if (grave.length === 0) return void run();
    ask({
      title: t('save_question', { topic: topic.topic }),
      body: <Facts rows={grave.map((field) => differenceOf(field, base.values, values))} />,
      action: t(thenTest ? 'save_and_test' : 'save'),
      run,
    });
  };
  return (
    <div class="cols">
      <Card width={7} title={t('tab_settings')} note={t('settings_note')}>
        <Form onSend={() => askToSave(false)}>
          <Fields
            values={values}
            errors={shownErrors(rejection, preview, changed)}
            rejection={rejection}
            change={setValues}
            note={<DestinationNote preview={preview} />}
          />
          <Failure text={rejection.text} place="wide" />
          <Theirs
            fields={theirs}
            theirs={base.values}
            mine={values}
            take={(name) => setValues({ ...values, [name]: base.values[name] ?? '' })}
          />
          <div class="wide fields">
            <button type="submit" class="btn main" disabled={isUnchanged}>
              {t('save')}
            </button>
            <Button disabled={isUnchanged} onClick={() => askToSave(true)}>
              {t('save_and_test')}
            </Button>
            <Button look="plain" disabled={isUnchanged} onClick={discard}>
              {t('discard')}
            </Button>
            {isUnchanged ? null : <span class="faint">{t('unsaved', { count: changed.length })}</span>}
            <span class="faint">{t('revision', { number: base.revision })}</span>
          </div>
        </Form>
      </Card>
      <Beside values={values}>
        {deliveryOf(values) === 'pull' ? null : (
          <TestCallCard
            topic={topic.topic}
            isMessage={deliveryOf(values) === 'mq'}
            runs={testRuns}
            draft={() => (isUnchanged ? null : membersOf(changed, values))}
          />
        )}
      </Beside>
    </div>
  );
}

const shownText = (text: string | undefined): string => text || '–';

const differenceOf = ({ name }: FormField, before: Values, now: Values): Fact => [
  nameOf(name, now),
  `${shownText(before[name])} → ${shownText(now[name])}`,
  true,
];

/** Their values and the typed ones, field by field. */
function Theirs({
  fields: changed,
  theirs,
  mine,
  take,
}: {
  fields: readonly FormField[];
  theirs: Values;
  mine: Values;
  take: (name: string) => void;
}) {
  if (changed.length === 0) return null;
  return (
    <dl class="facts wide">
      {changed.map(({ name }) => (
        <Fragment key={name}>
          <dt>{nameOf(name, mine)}</dt>
          <dd>
            {t('their_value')} <span class="mono">{shownText(theirs[name])}</span>
            {mine[name] === theirs[name] ? null : (
              <>
                {' · '}
                {t('your_value')} <span class="mono">{shownText(mine[name])}</span>{' '}
                <Button look="s" onClick={() => take(name)}>
                  {t('take_theirs')}
                </Button>
              </>
            )}
          </dd>
        </Fragment>
      ))}
    </dl>
  );
}

/** Of the last save, else of the preview for fields that were changed. */
function shownErrors(
  { errors }: Rejection,
  preview: TopicPreviewJson | null,
  changed: readonly FormField[],
): readonly FieldError[] {
  const found = (preview?.errors ?? []).filter(({ field }) =>
    changed.some(({ name }) => name === fieldOf(field)),
  );
  return [...found, ...errors];
}

function DestinationNote({ preview }: { preview: TopicPreviewJson | null }) {
  const found = preview?.destination ?? null;
  if (found === null) return null;
  if (found.verdict === 'allowed')
    return <small class="good">{t('resolves_to', { addresses: found.addresses.join(', ') })}</small>;
  if (found.verdict === 'refused') return <small class="wrong">{found.reason}</small>;
  return <small>{found.reason}</small>;
}

/** A mistake in one of these sends jobs to the wrong place, or ends them as dead letters. */
const graveFields: readonly string[] = [
  'delivery',
  'callbackUrl',
  'retryIf',
  'maxAttempts',
  ...targetMembers,
];

/** Fields that a topic of a delivery cannot be without. */
const neededBy: Readonly<Record<Delivery, readonly FormField['name'][]>> = {
  push: ['callbackUrl'],
  mq: ['broker', 'to'],
  pull: [],
};

export function NewTopic() {
  const [name, setName] = useState('');
  const [values, setValues] = useState(defaults);
  const [rejection, setRejection] = useState(noRejection);
  const [made, setMade] = useState<{ readonly topic: string; readonly secret: string } | null>(null);
  const changed = changedFields(defaults, values);
  const needed = neededBy[deliveryOf(values)];
  const given = fields.filter((field) => changed.includes(field) || needed.includes(field.name));
  const missing = [
    name === '' && t('name'),
    ...needed.map((field) => (values[field] ?? '') === '' && nameOf(field, values)),
  ];
  const json = { topic: name, ...membersOf(given, values) };
  useLeaveCheck(made === null && (name !== '' || changed.length > 0));
  const isPreviewed = made === null && name !== '' && changed.length > 0;
  const { data: preview } = usePreview<TopicPreviewJson>('/v1/topics/preview', isPreviewed ? json : null);
  const create = async (): Promise<void> => {
    try {
      setMade(await call<{ topic: string; secret: string }>('POST', '/v1/topics', { json }));
    } catch (error) {
      setRejection(rejectionOf(error));
    }
  };
  if (made !== null)
    return (
      <>
        <Head title={made.topic} />
        <Card title={t('tab_secret')} look="body stack">
          <p>{t('created_topic')}</p>
          <SecretOnce text={made.secret} />
          <div>
            <Button look="main" onClick={() => go(href('topics', made.topic))}>
              {made.topic}
            </Button>
          </div>
        </Card>
      </>
    );
  return (
    <>
      <Head title={t('new_topic')} />
      <div class="cols">
        <Card width={7}>
          <Form look="body form one-top" onSend={create}>
            <Field
              label={requiredLabel(t('name'))}
              isWide
              value={name}
              onType={setName}
              wrong={errorOf(rejection.errors, 'topic')?.message}
            />
            <Fields
              values={values}
              errors={shownErrors(rejection, preview, changed)}
              rejection={rejection}
              change={setValues}
              note={<DestinationNote preview={preview} />}
            />
            <Failure text={rejection.text} place="wide" />
            <div class="wide fields">
              <button type="submit" class="btn main" disabled={missing.some(Boolean)}>
                {t('create')}
              </button>
              <Missing fields={missing} />
            </div>
          </Form>
        </Card>
        <Beside values={values} />
      </div>
    </>
  );
}

/** `alertEmails[1]` belongs to the field alertEmails, `target.to` to the field to, `target` to broker. */
function fieldOf(name: string): string {
  const [root = name, member = 'broker'] = name.split(/[.[]/);
  return root === 'target' ? member : root;
}
const isField = (name: string): boolean => fields.some((field) => field.name === fieldOf(name));
const errorOf = (errors: readonly FieldError[], name: string) =>
  errors.find(({ field }) => fieldOf(field) === name);

function FieldNote({ errors, name }: { errors: readonly FieldError[]; name: string }) {
  const error = errorOf(errors, name);
  return error === undefined ? null : <small class="wrong">{error.message}</small>;
}

interface FieldsProps {
  readonly values: Values;
  readonly errors: readonly FieldError[];
  readonly change: (values: Values) => void;
  /** of the last save; each opens the folds with its fields */
  readonly rejection: Rejection;
  /** below the callback URL */
  readonly note: ComponentChildren;
}

/** The fields that every topic needs, and the others in folded groups; those of other deliveries are hidden. */
const Fields = (props: FieldsProps) => (
  <>
    <FieldsOf fields={fields.filter(({ isFirst }) => isFirst)} {...props} />
    {groups.map((group) => (
      <Fold
        key={group}
        group={group}
        fields={fields.filter((field) => field.group === group && !field.isFirst)}
        {...props}
      />
    ))}
  </>
);

/** Its title says what differs from the default. A mistake opens it, and it stays open when that is mended. */
function Fold({
  group,
  fields: all,
  ...props
}: FieldsProps & { group: FieldGroup; fields: readonly FormField[] }) {
  const { values, errors } = props;
  const own = all.filter((field) => isShown(field, values));
  const isWrong = own.some(({ name }) => errorOf(errors, name) !== undefined);
  const [isOpen, setOpen] = useState(isWrong);
  useEffect(() => setOpen((before) => before || isWrong), [isWrong, props.rejection]);
  if (own.length === 0) return null;
  const differs = own.filter(({ name }) => (values[name] ?? '') !== (defaults[name] ?? ''));
  return (
    <details class="wide fold" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <b class={isWrong ? 'wrong' : ''}>{t(`group_${group}`)}</b>{' '}
        <span class="faint">
          {dots(...differs.map((field) => `${nameOf(field.name, values)} ${inTitle(field, values)}`.trim()))}
        </span>
      </summary>
      <div class="form">
        <FieldsOf fields={own} {...props} />
      </div>
    </details>
  );
}

/** Headers by their names: the values can be credentials. A check is on. */
function inTitle({ name, kind }: FormField, values: Values): string {
  const text = shownText(values[name]);
  if (kind === 'headers') return text.replace(/:.*$/gm, '').replaceAll('\n', ', ');
  return kind === 'boolean' ? '' : text;
}

const FieldsOf = ({ fields: own, ...props }: FieldsProps & { fields: readonly FormField[] }) => (
  <>
    {own.map((field) => (
      <OneField key={field.name} field={field} {...props} />
    ))}
  </>
);

function OneField({ field, values, errors, change, note }: FieldsProps & { field: FormField }) {
  if (!isShown(field, values)) return null;
  const label = labelOf(field.name, values);
  return (
    <FieldInput
      field={field}
      label={neededBy[deliveryOf(values)].includes(field.name) ? requiredLabel(label) : label}
      value={values[field.name] ?? ''}
      errors={errors}
      change={(value) => change({ ...values, [field.name]: value })}
      note={field.name === 'callbackUrl' ? note : field.kind === 'broker' ? <BrokerNote /> : null}
    />
  );
}

/** What a member of the target is depends on the protocol of the broker. */
function labelOf(name: FormField['name'], values: Values): string {
  const { broker } = values;
  if (name === 'headers' && deliveryOf(values) === 'mq') return t('field_properties');
  const type = brokers().find((known) => known.name === broker)?.type;
  const label = t(`field_${name}`);
  return type === undefined ? label : wordOf(`field_${name}_${type}`, label);
}

/** The label without its hint. */
const nameOf = (name: FormField['name'], values: Values): string =>
  labelOf(name, values).split(' · ', 1).join('');

function BrokerNote() {
  return brokers().length === 0 ? <small>{t('no_brokers')}</small> : null;
}

/** With the stored one, also where the configuration lacks it. */
function brokerChoices(value: string): readonly string[] {
  return [...new Set(['', ...brokers().map(({ name }) => name), value])];
}

function FieldInput({
  field,
  label,
  value,
  errors,
  change,
  note,
}: {
  field: FormField;
  label: string;
  value: string;
  errors: readonly FieldError[];
  change: (value: string) => void;
  note: ComponentChildren;
}) {
  const { name, kind, isWide, isMono } = field;
  const choices =
    kind === 'boolean' ? ['false', 'true'] : kind === 'broker' ? brokerChoices(value) : field.choices;
  const isBad = errorOf(errors, name) !== undefined;
  return (
    <label class={isWide ? 'wide' : ''} for={`field-${name}`}>
      {label}
      {choices !== undefined ? (
        <select id={`field-${name}`} value={value} onChange={(event) => change(event.currentTarget.value)}>
          {choices.map((option) => (
            <option key={option} value={option}>
              {kind !== 'broker' ? wordOf(`choice_${option}`, option) : option || t('choose_broker')}
            </option>
          ))}
        </select>
      ) : kind === 'headers' ? (
        <textarea
          id={`field-${name}`}
          class={isBad ? 'bad' : ''}
          rows={3}
          placeholder="x-tenant: shop"
          value={value}
          onInput={(event) => change(event.currentTarget.value)}
        />
      ) : (
        <input
          id={`field-${name}`}
          class={[isMono ? 'mono' : '', isBad ? 'bad' : ''].join(' ').trim()}
          value={value}
          autocomplete="off"
          onInput={(event) => change(event.currentTarget.value)}
        />
      )}
      <FieldNote errors={errors} name={name} />
      {isBad ? null : note}
    </label>
  );
}

function Beside({ values, children }: { values: Values; children?: ComponentChildren }) {
  const maxAttempts = Math.min(100, Math.max(1, Math.floor(Number(values['maxAttempts'])) || 1));
  const backoff = memberOf({ kind: 'backoff' }, values['backoff'] ?? '');
  // Of the text as it is now: a preview may be of an earlier one.
  const waits = waitsOf({ maxAttempts, backoff }, retryUnitMs());
  const total = (waits ?? []).reduce((sum, wait) => sum + wait, 0);
  return (
    <div class="c5 stack">
      {deliveryOf(values) === 'push' ? <RuleTest values={values} /> : null}
      <Card
        title={t('retry_schedule')}
        note={waits === null ? undefined : t('schedule_note', { count: maxAttempts, time: duration(total) })}
        look="body"
      >
        {waits === null ? <p class="faint">{t('schedule_wrong')}</p> : <Ladder waitsMs={waits} />}
      </Card>
      {children}
    </div>
  );
}

const ruleFields = ['deadIf', 'againIf', 'retryIf'] as const;
const judgingFields = fields.filter(({ group }) => group === 'verdict');
const verdictLooks = {
  dead: ['dead', 'dead_letter'],
  again: ['retry', 'verdict_again'],
  retry: ['retry', 'verdict_retry'],
  done: ['done', 'delivered'],
} as const;

function RuleTest({ values }: { values: Values }) {
  const [status, setStatus] = useState('200');
  const [body, setBody] = useState('{"code": 500}');
  // dq rejects what is not a number, and names the field.
  const hasRule = ruleFields.some((name) => (values[name] ?? '').trim() !== '');
  const draft = Object.fromEntries(
    judgingFields.map((field) => [field.name, memberOf(field, values[field.name] ?? '')]),
  );
  const json = { draft, body, status: /^\d+$/.test(status) ? Number(status) : status };
  const path = '/v1/rules/test';
  const { data: result, error } = usePreview<ReplyOf<typeof testRuleSchema>>(path, hasRule ? json : null);
  const wrong = error?.errors.find(({ field }) => ruleFields.some((name) => name === field));
  const position = wrong?.position;
  const rule = wrong === undefined ? '' : (values[wrong.field] ?? '');
  const [colour, word] = verdictLooks[result?.verdict ?? 'done'];
  return (
    <Card title={t('test_rule')} note={t('test_rule_note')} look="body stack">
      <div class="form">
        <Field label={t('status')} value={status} onType={setStatus} />
        <Field label={t('sample_reply')} isWide rows={4} value={body} onType={setBody} />
      </div>
      <div role="status">
        {hasRule ? null : <p class="faint">{t('rule_absent')}</p>}
        {result === null ? null : (
          <div class="verdict">
            <Pill colour={colour}>{t(word)}</Pill>
            {result.by == null ? null : <span class="mono">{result.by}</span>}
            {Object.entries(result.values).map(([name, value]) => (
              <span key={name} class="mono">{`${name} = ${JSON.stringify(value)}`}</span>
            ))}
          </div>
        )}
        {error === null ? null : (
          <>
            <p class="wrong">{error.message}</p>
            {position === undefined ? null : (
              <Code>
                {rule.slice(0, position)}
                <mark>{rule.slice(position, position + 1) || ' '}</mark>
                {rule.slice(position + 1)}
              </Code>
            )}
          </>
        )}
      </div>
    </Card>
  );
}
