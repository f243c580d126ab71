// Settings of a topic: a form over the API's fields, the rule tester and the retry schedule beside it. Sends only
// the members that were changed; dq checks them, and its errors appear at their fields.

import { Fragment } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { CallError, call, type FieldError, topicPath } from '../api/call.ts';
import type { TopicJson } from '../api/types.ts';
import { Ladder } from '../charts/ladder.tsx';
import { duration } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { Card, CopyButton, Failure, Head, Pill, toast } from '../parts/parts.tsx';
import { go, href, leaveCheck } from '../router.ts';
import { waitsOf } from '../waits.ts';
import { t, type Word, wordOf } from '../words/words.ts';

type Values = Readonly<Record<string, string>>;

interface Field {
  readonly name: string;
  readonly group: Word;
  /** 'text', 'number', the members of a choice, 'list' (comma-separated), or 'backoff' */
  readonly kind: 'text' | 'number' | 'list' | 'backoff' | readonly string[];
  readonly wide?: boolean;
  readonly mono?: boolean;
}

const fields: readonly Field[] = [
  { name: 'callbackUrl', group: 'group_callback', kind: 'text', wide: true, mono: true },
  { name: 'method', group: 'group_callback', kind: ['POST', 'PUT', 'GET'] },
  { name: 'format', group: 'group_callback', kind: ['raw', 'form'] },
  { name: 'delay', group: 'group_callback', kind: 'text', mono: true },
  { name: 'timeout', group: 'group_callback', kind: 'text', mono: true },
  { name: 'retryIf', group: 'group_retry', kind: 'text', wide: true, mono: true },
  { name: 'okStatus', group: 'group_retry', kind: 'list', mono: true },
  { name: 'emptyReply', group: 'group_retry', kind: ['accept', 'retry'] },
  { name: 'maxAttempts', group: 'group_retry', kind: 'number' },
  { name: 'backoff', group: 'group_retry', kind: 'backoff', mono: true },
  { name: 'jitter', group: 'group_retry', kind: 'number' },
  { name: 'priority', group: 'group_limits', kind: ['high', 'normal', 'low'] },
  { name: 'concurrency', group: 'group_limits', kind: 'number' },
  { name: 'rate', group: 'group_limits', kind: 'number' },
  { name: 'title', group: 'group_people', kind: 'text' },
  { name: 'owner', group: 'group_people', kind: 'text' },
  { name: 'alertEmails', group: 'group_people', kind: 'list', wide: true },
];
const groups: readonly Word[] = ['group_callback', 'group_retry', 'group_limits', 'group_people'];

const defaults: Values = {
  callbackUrl: '',
  method: 'POST',
  format: 'raw',
  delay: '0',
  timeout: '3s',
  retryIf: '',
  okStatus: '2xx',
  emptyReply: 'accept',
  maxAttempts: '10',
  backoff: '2n+1',
  jitter: '0',
  priority: 'normal',
  concurrency: '64',
  rate: '0',
  title: '',
  owner: '',
  alertEmails: '',
};

/** The text of a member in its field. */
function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const valuesOf = (topic: TopicJson): Values =>
  Object.fromEntries(fields.map(({ name }) => [name, textOf(topic[name as keyof TopicJson])]));

const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

/** The member that a field's text means. A text that is no number goes as it is: dq names the mistake. */
function memberOf({ kind }: Field, text: string): unknown {
  if (kind === 'list') return listOf(text);
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

const changedFields = (before: Values, now: Values): readonly Field[] =>
  fields.filter(({ name }) => (before[name] ?? '') !== (now[name] ?? ''));

export function TopicSettings({ topic }: { topic: TopicJson }) {
  // The topic as it was when the form was opened: polls must not change what is typed.
  const [before, setBefore] = useState(() => valuesOf(topic));
  const [values, setValues] = useState(before);
  const [errors, setErrors] = useState<readonly FieldError[]>([]);
  const [failure, setFailure] = useState<string | null>(null);
  const changed = changedFields(before, values);
  useEffect(() => {
    const onLeave = (event: BeforeUnloadEvent): void => {
      if (changed.length > 0) event.preventDefault();
    };
    leaveCheck.ask = () => changed.length === 0 || confirm(t('leave_question'));
    addEventListener('beforeunload', onLeave);
    return () => {
      leaveCheck.ask = () => true;
      removeEventListener('beforeunload', onLeave);
    };
  });
  const save = async (): Promise<void> => {
    const json = Object.fromEntries(
      changed.map((field) => [field.name, memberOf(field, values[field.name] ?? '')]),
    );
    try {
      const saved = valuesOf(await call<TopicJson>('PATCH', topicPath(topic.topic), { json }));
      setBefore(saved);
      setValues(saved);
      setErrors([]);
      setFailure(null);
      toast(t('saved'));
    } catch (error) {
      showError(error, setErrors, setFailure);
    }
  };
  const askToSave = (): void => {
    const grave = changed.filter(({ name }) => graveFields.includes(name));
    if (grave.length === 0) return void save();
    ask({
      title: t('save_question', { topic: topic.topic }),
      body: <Difference fields={grave} before={before} now={values} />,
      action: t('save'),
      run: save,
    });
  };
  return (
    <div class="cols">
      <Card width={7} title={t('tab_settings')} note={t('settings_note')}>
        <form
          class="body form"
          onSubmit={(event) => {
            event.preventDefault();
            askToSave();
          }}
        >
          <Fields values={values} errors={errors} change={setValues} />
          <Failure text={failure} place="wide" />
          <div class="wide fields">
            <button type="submit" class="btn main" disabled={changed.length === 0}>
              {t('save')}
            </button>
            <button
              type="button"
              class="btn plain"
              disabled={changed.length === 0}
              onClick={() => {
                setValues(before);
                setErrors([]);
                setFailure(null);
              }}
            >
              {t('discard')}
            </button>
            {changed.length === 0 ? null : (
              <span class="faint">{t('unsaved', { count: changed.length })}</span>
            )}
          </div>
        </form>
      </Card>
      <Beside values={values} />
    </div>
  );
}

/** A mistake in one of these sends callbacks to the wrong place, or ends jobs as dead letters. */
const graveFields: readonly string[] = ['callbackUrl', 'retryIf', 'maxAttempts'];

function Difference({
  fields: shown,
  before,
  now,
}: {
  fields: readonly Field[];
  before: Values;
  now: Values;
}) {
  return (
    <dl class="facts">
      {shown.map(({ name }) => (
        <Fragment key={name}>
          <dt>{wordOf(`field_${name}`, name)}</dt>
          <dd class="mono">
            {before[name] === '' ? '–' : before[name]} → {now[name] === '' ? '–' : now[name]}
          </dd>
        </Fragment>
      ))}
    </dl>
  );
}

export function NewTopic() {
  const [name, setName] = useState('');
  const [values, setValues] = useState(defaults);
  const [errors, setErrors] = useState<readonly FieldError[]>([]);
  const [failure, setFailure] = useState<string | null>(null);
  const [made, setMade] = useState<{ readonly topic: string; readonly secret: string } | null>(null);
  const create = async (): Promise<void> => {
    const given = fields.filter(
      (field) => field.name === 'callbackUrl' || values[field.name] !== defaults[field.name],
    );
    const json = {
      topic: name,
      ...Object.fromEntries(given.map((field) => [field.name, memberOf(field, values[field.name] ?? '')])),
    };
    try {
      setMade(await call<{ topic: string; secret: string }>('POST', '/v1/topics', { json }));
    } catch (error) {
      showError(error, setErrors, setFailure);
    }
  };
  if (made !== null)
    return (
      <>
        <Head title={made.topic} />
        <Card title={t('tab_secret')}>
          <div class="body stack" role="status">
            <p>{t('created_topic')}</p>
            <div class="title">
              <pre class="code" tabIndex={0}>
                {made.secret}
              </pre>
              <CopyButton text={made.secret} label={t('copy')} />
            </div>
            <div>
              <button type="button" class="btn main" onClick={() => go(href('topics', made.topic))}>
                {made.topic}
              </button>
            </div>
          </div>
        </Card>
      </>
    );
  return (
    <>
      <Head title={t('new_topic')} />
      <div class="cols">
        <Card width={7} title={t('new_topic')}>
          <form
            class="body form"
            onSubmit={(event) => {
              event.preventDefault();
              void create();
            }}
          >
            <label class="wide">
              {t('name')}
              <input
                class={errorOf(errors, 'topic') === undefined ? 'mono' : 'mono bad'}
                value={name}
                autocomplete="off"
                onInput={(event) => setName(event.currentTarget.value)}
              />
              <FieldNote errors={errors} name="topic" />
            </label>
            <Fields values={values} errors={errors} change={setValues} />
            <Failure text={failure} place="wide" />
            <div class="wide fields">
              <button type="submit" class="btn main" disabled={name === ''}>
                {t('create')}
              </button>
            </div>
          </form>
        </Card>
        <Beside values={values} />
      </div>
    </>
  );
}

function showError(
  error: unknown,
  setErrors: (errors: readonly FieldError[]) => void,
  setFailure: (text: string) => void,
): void {
  const problem = error instanceof CallError ? error : null;
  const known = (problem?.errors ?? []).filter(({ field }) => field === 'topic' || isField(field));
  setErrors(known);
  if (problem === null || problem.status === 0) setFailure(t('no_reply'));
  else setFailure(problem.message);
}

/** `alertEmails[1]` belongs to the field alertEmails. */
const rootOf = (name: string): string => name.split(/[.[]/, 1)[0] ?? name;
const isField = (name: string): boolean => fields.some((field) => field.name === rootOf(name));
const errorOf = (errors: readonly FieldError[], name: string) =>
  errors.find(({ field }) => rootOf(field) === name);

function FieldNote({ errors, name }: { errors: readonly FieldError[]; name: string }) {
  const error = errorOf(errors, name);
  return error === undefined ? null : <small class="wrong">{error.message}</small>;
}

function Fields({
  values,
  errors,
  change,
}: {
  values: Values;
  errors: readonly FieldError[];
  change: (values: Values) => void;
}) {
  return (
    <>
      {groups.map((group) => (
        <fieldset key={group}>
          <legend>{t(group)}</legend>
          {fields
            .filter((field) => field.group === group)
            .map((field) => (
              <Input
                key={field.name}
                field={field}
                value={values[field.name] ?? ''}
                errors={errors}
                change={(value) => change({ ...values, [field.name]: value })}
              />
            ))}
        </fieldset>
      ))}
    </>
  );
}

function Input({
  field,
  value,
  errors,
  change,
}: {
  field: Field;
  value: string;
  errors: readonly FieldError[];
  change: (value: string) => void;
}) {
  const { name, kind, wide = false, mono = false } = field;
  const isBad = errorOf(errors, name) !== undefined;
  return (
    <label class={wide ? 'wide' : ''} for={`field-${name}`}>
      {wordOf(`field_${name}`, name)}
      {Array.isArray(kind) ? (
        <select id={`field-${name}`} value={value} onChange={(event) => change(event.currentTarget.value)}>
          {kind.map((option: string) => (
            <option key={option} value={option}>
              {wordOf(`choice_${option}`, option)}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={`field-${name}`}
          class={[mono ? 'mono' : '', isBad ? 'bad' : ''].join(' ').trim()}
          value={value}
          autocomplete="off"
          onInput={(event) => change(event.currentTarget.value)}
        />
      )}
      <FieldNote errors={errors} name={name} />
    </label>
  );
}

function Beside({ values }: { values: Values }) {
  const maxAttempts = Math.min(100, Math.max(1, Math.floor(Number(values['maxAttempts'])) || 1));
  const backoff = memberOf(
    { name: 'backoff', group: 'group_retry', kind: 'backoff' },
    values['backoff'] ?? '',
  );
  const waits = waitsOf({ maxAttempts, backoff: backoff as TopicJson['backoff'] });
  const total = waits.reduce((sum, wait) => sum + wait, 0);
  return (
    <div class="c5 stack">
      <RuleTest rule={values['retryIf'] ?? ''} />
      <Card
        title={t('retry_schedule')}
        note={t('schedule_note', { count: maxAttempts, time: duration(total) })}
      >
        <div class="body">
          <Ladder waitsMs={waits} />
        </div>
      </Card>
    </div>
  );
}

interface RuleResult {
  readonly retry: boolean;
  readonly values: Readonly<Record<string, unknown>>;
}

/** Asks 300 ms after the last key. */
function RuleTest({ rule }: { rule: string }) {
  const [status, setStatus] = useState('200');
  const [body, setBody] = useState('{"code": 500}');
  const [result, setResult] = useState<RuleResult | null>(null);
  const [error, setError] = useState<CallError | null>(null);
  useEffect(() => {
    setResult(null);
    setError(null);
    if (rule.trim() === '') return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const number = Number(status);
      const json = { rule, body, ...(Number.isInteger(number) && status !== '' ? { status: number } : {}) };
      call<RuleResult>('POST', '/v1/rules/test', { json, signal: abort.signal }).then(
        setResult,
        (problem: unknown) => {
          if (problem instanceof CallError) setError(problem);
        },
      );
    }, 300);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [rule, status, body]);
  const position = error?.errors.find(({ field }) => field === 'rule')?.position;
  return (
    <Card title={t('test_rule')} note={t('test_rule_note')}>
      <div class="body stack">
        <div class="form">
          <label>
            {t('sample_status')}
            <input class="mono" value={status} onInput={(event) => setStatus(event.currentTarget.value)} />
          </label>
          <label class="wide">
            {t('sample_reply')}
            <textarea rows={4} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
          </label>
        </div>
        <div role="status">
          {rule.trim() === '' ? <p class="faint">{t('rule_absent')}</p> : null}
          {result === null ? null : (
            <div class="verdict">
              <Pill colour={result.retry ? 'retry' : 'done'}>
                {t(result.retry ? 'verdict_retry' : 'verdict_ack')}
              </Pill>
              {Object.entries(result.values).map(([name, value]) => (
                <span key={name} class="mono">{`${name} = ${JSON.stringify(value)}`}</span>
              ))}
            </div>
          )}
          {error === null ? null : (
            <>
              <p class="wrong">{error.message}</p>
              {position === undefined ? null : (
                <pre class="code wrap" tabIndex={0}>
                  {rule.slice(0, position)}
                  <mark>{rule.slice(position, position + 1) || ' '}</mark>
                  {rule.slice(position + 1)}
                </pre>
              )}
            </>
          )}
        </div>
      </div>
    </Card>
  );
}
