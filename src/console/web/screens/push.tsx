// Push a job: a form beside the request as curl. JSON is checked while it is typed, and each rejection is shown
// at its field.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { mistakeIn } from '../../../core/json-span.ts';
import { CallError, call, get, topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may, serverUrl, session } from '../api/session.ts';
import type { JobJson, TopicJson } from '../api/types.ts';
import { durationMs } from '../backoff-waits.ts';
import { curlOf } from '../curl.ts';
import { bytes, clock, relative } from '../format.ts';
import {
  Card,
  CopyButton,
  Empty,
  errorText,
  Failure,
  Head,
  LoadError,
  NewTopicLink,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { href, place } from '../router.ts';
import { spoken } from '../waits.ts';
import { t, type Word } from '../words/words.ts';
import { dueOf } from './topic-actions.tsx';

type When = 'default' | 'in' | 'at';
type Options = Readonly<Record<'maxAttempts' | 'backoff' | 'deadline', string>>;
const optionFields = [
  ['deadline', 'deadline', 'deadline_hint'],
  ['maxAttempts', 'field_maxAttempts', 'topic_default'],
  ['backoff', 'field_backoff', 'topic_default'],
] as const;
const modes = ['replace', 'keep', 'reject'] as const;

interface Result {
  readonly topic: string;
  readonly id: string;
  readonly dueAt: string;
  readonly replaced: boolean;
  readonly duplicate: boolean;
}

const dueText = (ms: number): string => t('due_both', { clock: clock(ms), time: relative(ms) });

export function Push() {
  const { query } = place.value;
  const topics = usePoll<{ items: readonly TopicJson[] }>('/v1/topics', 30_000, { limit: '1000' });
  const [topic, setTopic] = useState(query.get('topic') ?? '');
  const [id, setId] = useState('');
  const [when, setWhen] = useState<When>('default');
  const [delay, setDelay] = useState('10m');
  const [at, setAt] = useState('');
  const [mode, setMode] = useState<(typeof modes)[number]>('replace');
  const [options, setOptions] = useState<Options>({ maxAttempts: '', backoff: '', deadline: '' });
  const [contentType, setContentType] = useState('application/json');
  const [body, setBody] = useState('{}');
  const [error, setError] = useState<CallError | null>(null);
  const [result, setResult] = useState<Result | null>(null);
  const [busy, setBusy] = useState(false);
  const from = query.get('from');
  // The form appears with the job that it begins with: a late answer would replace what is typed.
  const [isReading, setReading] = useState(from !== null && topic !== '');
  useEffect(() => {
    if (from === null || topic === '') return;
    get<JobJson>(topicPath(topic, 'jobs', from))
      .then(
        (job) => {
          setBody(job.body ?? '');
          setContentType(job.contentType ?? '');
          setId(job.id);
        },
        (problem: CallError) => setError(problem),
      )
      .finally(() => setReading(false));
  }, []);
  if (isReading)
    return (
      <>
        <Head title={t('push_job')} />
        <Card>
          <Waiting />
        </Card>
      </>
    );
  if (topics.data !== null && topics.data.items.length === 0)
    return (
      <>
        <Head title={t('push_job')} actions={<NewTopicLink />} />
        <Card>
          <Empty>{t('create_topic_first')}</Empty>
        </Card>
      </>
    );
  const chosen = topics.data?.items.find((one) => one.topic === topic);
  const parameters: Record<string, string> = {
    ...(id === '' ? {} : { id }),
    ...(when === 'in' ? { delay } : when === 'at' ? { at } : {}),
    ...(mode === 'replace' ? {} : { mode }),
    ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== '')),
  };
  const due =
    when === 'default'
      ? chosen === undefined
        ? null
        : daemonNow() + (durationMs(chosen.delay) ?? 0)
      : dueOf(when === 'in' ? delay : at);
  const send = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    setResult(null);
    try {
      setResult(
        await call<Result>('POST', topicPath(topic, 'jobs'), { query: parameters, text: body, contentType }),
      );
    } catch (problem) {
      if (problem instanceof CallError) {
        setError(problem);
        // So that the next push has the same id.
        if (typeof problem.problem['id'] === 'string') setId(problem.problem['id']);
      }
    }
    setBusy(false);
  };
  const another = (): void => {
    setResult(null);
    setId('');
  };
  const bodyMistake = contentType.startsWith('application/json') ? jsonMistake(body) : null;
  const wrongs = wrongsOf(error, topic, bodyMistake === null);
  const curl = curlOfPush(topic, parameters, contentType, body);
  const radio = (value: When, children: ComponentChildren) => (
    <label class="check">
      <input type="radio" name="when" checked={when === value} onChange={() => setWhen(value)} />
      {children}
    </label>
  );
  return (
    <>
      <Head title={t('push_job')} />
      <LoadError error={topics.error} what={t('topics')} retry={topics.refresh} />
      <div class="cols">
        <Card width={7}>
          <form
            class="body form one-top"
            onSubmit={(event) => {
              event.preventDefault();
              void send();
            }}
          >
            <label>
              {t('topic')}
              <select value={topic} onChange={(event) => setTopic(event.currentTarget.value)} required>
                <option value="">{t('choose_topic')}</option>
                {topics.data?.items.map((one) => (
                  <option key={one.topic} value={one.topic}>
                    {one.topic}
                  </option>
                ))}
              </select>
              <Wrong text={wrongs.topic} />
            </label>
            <label>
              {t('job_id')} ({t('optional')})
              <input
                class={wrongs.id === undefined ? 'mono' : 'mono bad'}
                value={id}
                autocomplete="off"
                onInput={(event) => setId(event.currentTarget.value)}
              />
              <Wrong text={wrongs.id} />
            </label>
            <fieldset class="wide when">
              <legend>{t('when')}</legend>
              {radio(
                'default',
                t('when_default', { time: chosen === undefined ? '–' : spoken(chosen.delay) }),
              )}
              {radio('in', t('when_in'))}
              <input
                class={wrongs.delay === undefined ? 'mono' : 'mono bad'}
                aria-label={t('when_in')}
                value={delay}
                placeholder="10m"
                onFocus={() => setWhen('in')}
                onInput={(event) => setDelay(event.currentTarget.value)}
              />
              {radio('at', t('when_at'))}
              <input
                class={wrongs.at === undefined ? 'mono' : 'mono bad'}
                aria-label={t('when_at')}
                value={at}
                placeholder="2030-01-01T08:00:00+08:00"
                onFocus={() => setWhen('at')}
                onInput={(event) => setAt(event.currentTarget.value)}
              />
              <Wrong text={wrongs.delay ?? wrongs.at} />
            </fieldset>
            <label>
              {t('mode')}
              <select
                value={mode}
                onChange={(event) => setMode(event.currentTarget.value as (typeof modes)[number])}
              >
                {modes.map((one) => (
                  <option key={one} value={one}>
                    {t(`mode_${one}` as Word)}
                  </option>
                ))}
              </select>
            </label>
            {optionFields.map(([name, label, hint]) => (
              <label key={name}>
                {t(label)} ({t('optional')})
                <input
                  class={wrongs[name] === undefined ? 'mono' : 'mono bad'}
                  value={options[name]}
                  placeholder={t(hint)}
                  onInput={(event) => setOptions({ ...options, [name]: event.currentTarget.value.trim() })}
                />
                <Wrong text={wrongs[name]} />
              </label>
            ))}
            <label>
              {t('content_type')}
              <input
                class="mono"
                value={contentType}
                onInput={(event) => setContentType(event.currentTarget.value)}
              />
            </label>
            <label class="wide">
              {t('body')}
              <textarea
                rows={10}
                class={bodyMistake === null && wrongs.body === undefined ? '' : 'bad'}
                value={body}
                spellcheck={false}
                onInput={(event) => setBody(event.currentTarget.value)}
              />
              {bodyMistake !== null ? (
                <small class="wrong" role="status">
                  {t('invalid_json_at', { n: bodyMistake })}
                </small>
              ) : contentType.startsWith('application/json') ? (
                <small class="ok" role="status">
                  {t('valid_json')}
                </small>
              ) : null}
              <Wrong text={wrongs.body} />
            </label>
            <Failure place="wide" text={wrongs.other ?? null} />
            <div class="wide fields">
              <button
                type="submit"
                class={result === null ? 'btn main' : 'btn'}
                disabled={busy || topic === '' || !may('push')}
              >
                {t('push')}
              </button>
              {result === null ? null : (
                <button type="button" class="btn main" onClick={another}>
                  {t('push_another')}
                </button>
              )}
            </div>
          </form>
        </Card>
        <div class="c5 stack">
          <Card title={t('request_as_curl')} end={<CopyButton text={curl} label={t('copy')} />}>
            <div class="body stack">
              <pre class="code wrap" tabIndex={0}>
                {curl}
              </pre>
              {due === null ? null : (
                <p class="soft">
                  <Time at={due} text={dueText} />
                </p>
              )}
            </div>
          </Card>
          {result === null ? null : <Pushed result={result} />}
        </div>
      </div>
    </>
  );
}

export function Wrong({ text }: { text: string | undefined }) {
  return text === undefined ? null : (
    <small class="wrong" role="alert">
      {text}
    </small>
  );
}

function Pushed({ result: { topic, id, dueAt, replaced, duplicate } }: { result: Result }) {
  const due = Date.parse(dueAt);
  return (
    <Card title={t('result')}>
      <div class="body stack" role="status">
        <p>
          {t(duplicate ? 'push_kept' : replaced ? 'push_replaced' : 'push_created')}{' '}
          <Time at={due} text={dueText} />
        </p>
        <p>
          <a class="mono" href={href('jobs', topic, id)}>
            {t('view_job')}: {id}
          </a>
        </p>
      </div>
    </Card>
  );
}

interface Wrongs extends Partial<Options> {
  readonly topic?: string;
  readonly id?: string;
  readonly delay?: string;
  readonly at?: string;
  readonly body?: string;
  /** of no field */
  readonly other?: string;
}

function wrongsOf(error: CallError | null, topic: string, isJson: boolean): Wrongs {
  if (error === null) return {};
  switch (error.code) {
    case 'topic_offline':
      return { topic: t('offline_first', { topic }) };
    case 'topic_not_found':
      return { topic: errorText(error) };
    case 'job_exists':
      return { id: t('id_exists') };
    case 'body_too_large': {
      const max = /(\d+) bytes/.exec(error.message)?.[1];
      return { body: max === undefined ? errorText(error) : t('body_exceeds', { size: bytes(Number(max)) }) };
    }
    // Usually it is known while the body is typed.
    case 'malformed_json':
      return isJson ? { body: errorText(error) } : {};
    case 'unknown':
      return { other: t('unknown_result') };
    case 'no_reply':
      return { other: t('unknown_no_reply') };
  }
  const fields = Object.fromEntries(error.errors.map(({ field, message }) => [field, message]));
  const isShown = ['id', 'delay', 'at', 'body', ...optionFields.map(([name]) => name)].some(
    (field) => field in fields,
  );
  return isShown ? fields : { other: errorText(error) };
}

/** Number of the first wrong character, from 1; null: the text is JSON. */
export function jsonMistake(text: string): number | null {
  const encoded = new TextEncoder().encode(text);
  const at = mistakeIn(encoded);
  return at === null ? null : [...new TextDecoder().decode(encoded.subarray(0, at))].length + 1;
}

/** To the address of the API, which is not the console's. */
function curlOfPush(topic: string, query: Record<string, string>, contentType: string, body: string): string {
  const parameters = new URLSearchParams(query).toString();
  const path = topicPath(topic === '' ? 'TOPIC' : topic, 'jobs');
  const { value } = session;
  const needsToken = value.kind === 'signed_in' && value.me.tokensExist;
  return curlOf({
    method: 'POST',
    url: `${serverUrl()}${path}${parameters === '' ? '' : `?${parameters}`}`,
    headers: {
      ...(needsToken ? { authorization: 'Bearer dqk_…' } : {}),
      ...(contentType === '' ? {} : { 'content-type': contentType }),
    },
    body,
  });
}
