// Push a job: a form beside the request as curl. JSON is checked while it is typed, and each rejection is shown
// at its field.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { JobJson } from '../../../contract/api/job.ts';
import type { PushResultJson } from '../../../contract/api/push.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { CallError, call, get, type Query, queryText, topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may, me, serverUrl } from '../api/session.ts';
import { durationMs } from '../backoff-waits.ts';
import { curlOf } from '../commands.ts';
import { bytes, spoken } from '../format.ts';
import { BodyField, Check, Field, Form, Input, jsonMistake, Wrong } from '../parts/form.tsx';
import { isJsonType } from '../parts/json-view.tsx';
import {
  Button,
  Card,
  Code,
  CopyButton,
  Empty,
  errorText,
  Failure,
  Head,
  LoadError,
  NewTopicLink,
  Select,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { href, place } from '../router.ts';
import { t } from '../words/words.ts';
import { dueOf, dueText } from './topic-actions.tsx';

type When = 'default' | 'in' | 'at';
/** Optional ones, with their labels and hints. */
const optionFields = [
  ['deadline', 'deadline', 'deadline_hint'],
  ['maxAttempts', 'field_maxAttempts', 'topic_default'],
  ['backoff', 'field_backoff', 'topic_default'],
] as const;
const modes = ['replace', 'keep', 'reject'] as const;

/** What the form has when it begins. */
const empty = {
  topic: '',
  id: '',
  when: 'default' as When,
  delay: '10m',
  at: '',
  mode: 'replace' as (typeof modes)[number],
  maxAttempts: '',
  backoff: '',
  deadline: '',
  contentType: 'application/json',
  body: '{}',
};
type Draft = Readonly<typeof empty>;

export function Screen() {
  const { query } = place.value;
  const topics = usePoll<{ items: readonly TopicJson[] }>('/v1/topics', 30_000, { limit: '1000' });
  const [draft, setDraft] = useState<Draft>({ ...empty, topic: query.get('topic') ?? '' });
  const set = (some: Partial<Draft>): void => setDraft((last) => ({ ...last, ...some }));
  const push = usePush(draft, set);
  const isReading = useEarlierJob(draft.topic, query.get('from'), set, push.setError);
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
  const known = topics.data?.items ?? [];
  const topicDelay = known.find(({ topic }) => topic === draft.topic)?.delay;
  return (
    <>
      <Head title={t('push_job')} />
      <LoadError error={topics.error} what={t('topics')} retry={topics.refresh} />
      <div class="cols">
        <Card width={7}>
          <PushForm draft={draft} set={set} topics={known} topicDelay={topicDelay} push={push} />
        </Card>
        <div class="c5 stack">
          <CurlCard draft={draft} due={dueOfDraft(draft, topicDelay)} />
          {push.result === null ? null : <Pushed result={push.result} />}
        </div>
      </div>
    </>
  );
}

/** Reads the job that the form begins with, and returns whether it does. The form appears with that job: a late
 *  answer would replace what is typed. `from`: the id of the job; null: none. */
function useEarlierJob(
  topic: string,
  from: string | null,
  set: (some: Partial<Draft>) => void,
  fail: (error: CallError) => void,
): boolean {
  const [isReading, setReading] = useState(from !== null && topic !== '');
  useEffect(() => {
    if (from === null || topic === '') return;
    get<JobJson>(topicPath(topic, 'jobs', from))
      .then(
        (job) => set({ body: job.body ?? '', contentType: job.contentType ?? '', id: job.id }),
        (problem: CallError) => fail(problem),
      )
      .finally(() => setReading(false));
  }, []);
  return isReading;
}

function usePush(draft: Draft, set: (some: Partial<Draft>) => void) {
  const [error, setError] = useState<CallError | null>(null);
  const [result, setResult] = useState<PushResultJson | null>(null);
  const [busy, setBusy] = useState(false);
  const send = async (): Promise<void> => {
    const { topic, body: text, contentType } = draft;
    setBusy(true);
    setError(null);
    setResult(null);
    try {
      const query = parametersOf(draft);
      setResult(await call<PushResultJson>('POST', topicPath(topic, 'jobs'), { query, text, contentType }));
    } catch (problem) {
      if (problem instanceof CallError) {
        setError(problem);
        // So that the next push has the same id.
        if (typeof problem.problem['id'] === 'string') set({ id: problem.problem['id'] });
      }
    }
    setBusy(false);
  };
  /** Begins another push. */
  const another = (): void => {
    setResult(null);
    set({ id: '' });
  };
  return { error, setError, result, busy, send, another };
}

const parametersOf = ({ id, when, delay, at, mode, deadline, maxAttempts, backoff }: Draft): Query => ({
  id,
  delay: when === 'in' ? delay : '',
  at: when === 'at' ? at : '',
  mode: mode === 'replace' ? '' : mode,
  deadline,
  maxAttempts,
  backoff,
});

/** Epoch ms; null: not known. */
function dueOfDraft({ when, delay, at }: Draft, topicDelay: string | undefined): number | null {
  if (when !== 'default') return dueOf(when === 'in' ? delay : at);
  return topicDelay === undefined ? null : daemonNow() + (durationMs(topicDelay) ?? 0);
}

interface FieldProps {
  draft: Draft;
  set: (some: Partial<Draft>) => void;
  wrongs: Wrongs;
}

function PushForm({
  topics,
  topicDelay,
  push: { error, result, busy, send, another },
  ...fields
}: Omit<FieldProps, 'wrongs'> & {
  topics: readonly TopicJson[];
  topicDelay: string | undefined;
  push: ReturnType<typeof usePush>;
}) {
  const { draft, set } = fields;
  const bodyMistake = isJsonType(draft.contentType) ? jsonMistake(draft.body) : null;
  const wrongs = wrongsOf(error, draft.topic, bodyMistake === null);
  return (
    <Form look="body form one-top" onSend={send}>
      <Select
        label={t('topic')}
        value={draft.topic}
        options={[['', t('choose_topic')], ...topics.map(({ topic }) => [topic, topic] as const)]}
        onChoose={(topic) => set({ topic })}
      >
        <Wrong text={wrongs.topic} />
      </Select>
      <Field
        label={`${t('job_id')} (${t('optional')})`}
        value={draft.id}
        wrong={wrongs.id}
        onType={(id) => set({ id })}
      />
      <WhenField {...fields} wrongs={wrongs} topicDelay={topicDelay} />
      <OptionFields {...fields} wrongs={wrongs} />
      <BodyFields {...fields} wrongs={wrongs} mistake={bodyMistake} />
      <Failure place="wide" text={wrongs.other ?? null} />
      <div class="wide fields">
        <button
          type="submit"
          class={result === null ? 'btn main' : 'btn'}
          disabled={busy || draft.topic === '' || !may('push')}
        >
          {t('push')}
        </button>
        {result === null ? null : (
          <Button look="main" onClick={another}>
            {t('push_another')}
          </Button>
        )}
      </div>
    </Form>
  );
}

function WhenField({ draft, set, wrongs, topicDelay }: FieldProps & { topicDelay: string | undefined }) {
  const choice = (when: When, children: ComponentChildren) => (
    <Check group="when" look="check" isOn={draft.when === when} onChange={() => set({ when })}>
      {children}
    </Check>
  );
  const time = (when: 'in' | 'at', field: 'delay' | 'at', placeholder: string) => (
    <>
      {choice(when, t(`when_${when}`))}
      <Input
        label={t(`when_${when}`)}
        value={draft[field]}
        isWrong={wrongs[field] !== undefined}
        placeholder={placeholder}
        onFocus={() => set({ when })}
        onType={(text) => set({ [field]: text })}
      />
    </>
  );
  return (
    <fieldset class="wide when">
      <legend>{t('when')}</legend>
      {choice('default', t('when_default', { time: topicDelay === undefined ? '–' : spoken(topicDelay) }))}
      {time('in', 'delay', '10m')}
      {time('at', 'at', '2030-01-01T08:00:00+08:00')}
      <Wrong text={wrongs.delay ?? wrongs.at} />
    </fieldset>
  );
}

function OptionFields({ draft, set, wrongs }: FieldProps) {
  return (
    <>
      <Select
        label={t('mode')}
        value={draft.mode}
        options={modes.map((one) => [one, t(`mode_${one}`)] as const)}
        onChoose={(mode) => set({ mode })}
      />
      {optionFields.map(([name, label, hint]) => (
        <Field
          key={name}
          label={`${t(label)} (${t('optional')})`}
          value={draft[name]}
          wrong={wrongs[name]}
          placeholder={t(hint)}
          onType={(text) => set({ [name]: text.trim() })}
        />
      ))}
    </>
  );
}

/** `mistake`: as of jsonMistake(). */
function BodyFields({ draft, set, wrongs, mistake }: FieldProps & { mistake: number | null }) {
  const { contentType, body } = draft;
  return (
    <>
      <Field label={t('content_type')} value={contentType} onType={(text) => set({ contentType: text })} />
      <BodyField
        rows={10}
        value={body}
        mistake={mistake}
        wrong={wrongs.body}
        onType={(text) => set({ body: text })}
      >
        {isJsonType(draft.contentType) ? (
          <small class="ok" role="status">
            {t('valid_json')}
          </small>
        ) : null}
      </BodyField>
    </>
  );
}

/** `due`: epoch ms; null: not known. */
function CurlCard({ draft, due }: { draft: Draft; due: number | null }) {
  const curl = curlOfPush(draft);
  return (
    <Card title={t('request_as_curl')} end={<CopyButton text={curl} label={t('copy')} />} look="body stack">
      <Code>{curl}</Code>
      {due === null ? null : (
        <p class="soft">
          <Time at={due} text={dueText} />
        </p>
      )}
    </Card>
  );
}

function Pushed({
  result: { topic, id, dueAt, replaced, duplicate, state, endedAt },
}: {
  result: PushResultJson;
}) {
  const what = duplicate ? 'push_kept' : replaced ? 'push_replaced' : 'push_created';
  return (
    <Card title={t('result')}>
      <div class="body stack" role="status">
        {endedAt === undefined ? (
          <p>
            {t(what)} <Time at={Date.parse(dueAt)} text={dueText} />
          </p>
        ) : (
          <p>{t('push_ended', { state: t(`job_${state}`) })}</p>
        )}
        <p>
          <a class="mono" href={href('jobs', topic, id)}>
            {t('view_job')}: {id}
          </a>
        </p>
      </div>
    </Card>
  );
}

/** `other`: of no field */
type Wrongs = Readonly<Partial<Record<keyof Draft | 'other', string>>>;

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

/** To the address of the API, which is not the console's. */
function curlOfPush(draft: Draft): string {
  const { topic, contentType, body } = draft;
  const path = topicPath(topic === '' ? 'TOPIC' : topic, 'jobs');
  return curlOf({
    method: 'POST',
    url: serverUrl() + path + queryText(parametersOf(draft)),
    headers: {
      ...(me()?.tokensExist ? { authorization: 'Bearer dqk_…' } : {}),
      ...(contentType === '' ? {} : { 'content-type': contentType }),
    },
    body,
  });
}
