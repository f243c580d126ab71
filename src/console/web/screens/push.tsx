// Push a job: a form beside the request as curl.

import { useEffect, useState } from 'preact/hooks';
import { CallError, call, get, topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow } from '../api/session.ts';
import type { JobJson, TopicJson } from '../api/types.ts';
import { clock, relative } from '../format.ts';
import { isJson } from '../parts/json-view.tsx';
import { Card, CopyButton, Empty, Head } from '../parts/parts.tsx';
import { href, place } from '../router.ts';
import { durationMs } from '../waits.ts';
import { t, type Word } from '../words/words.ts';

type When = 'default' | 'in' | 'at';
const modes = ['replace', 'keep', 'reject'] as const;

interface Result {
  readonly topic: string;
  readonly id: string;
  readonly dueAt: string;
}

export function Push() {
  const { query } = place.value;
  const topics = usePoll<{ items: readonly TopicJson[] }>('/v1/topics', 30_000, { limit: '1000' });
  const [topic, setTopic] = useState(query.get('topic') ?? '');
  const [id, setId] = useState('');
  const [when, setWhen] = useState<When>('default');
  const [time, setTime] = useState('10m');
  const [mode, setMode] = useState<(typeof modes)[number]>('replace');
  const [contentType, setContentType] = useState('application/json');
  const [body, setBody] = useState('{}');
  const [error, setError] = useState<CallError | null>(null);
  const [result, setResult] = useState<Result | null>(null);
  const [busy, setBusy] = useState(false);
  const from = query.get('from');
  useEffect(() => {
    if (from === null || topic === '') return;
    get<JobJson>(topicPath(topic, 'jobs', from)).then(
      (job) => {
        setBody(job.body ?? '');
        setContentType(job.contentType ?? '');
        setId(job.id);
      },
      (problem: CallError) => setError(problem),
    );
  }, []);
  const chosen = topics.data?.items.find((one) => one.topic === topic);
  const parameters: Record<string, string> = {
    ...(id === '' ? {} : { id }),
    ...(when === 'in' ? { delay: time } : when === 'at' ? { at: time } : {}),
    ...(mode === 'replace' ? {} : { mode }),
  };
  const send = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      setResult(
        await call<Result>('POST', topicPath(topic, 'jobs'), { query: parameters, text: body, contentType }),
      );
    } catch (problem) {
      if (problem instanceof CallError) setError(problem);
    }
    setBusy(false);
  };
  if (topics.data !== null && topics.data.items.length === 0)
    return (
      <>
        <Head title={t('push_job')} />
        <Card>
          <Empty>{t('create_topic_first')}</Empty>
        </Card>
      </>
    );
  const isJsonType = contentType.startsWith('application/json');
  const curl = curlOf(topic, parameters, contentType, body);
  const wrong = (field: string): string | undefined =>
    error?.errors.find((one) => one.field === field)?.message;
  return (
    <>
      <Head title={t('push_job')} />
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
            </label>
            <label>
              {t('job_id')} ({t('optional')})
              <input
                class={wrong('id') === undefined ? 'mono' : 'mono bad'}
                value={id}
                autocomplete="off"
                onInput={(event) => setId(event.currentTarget.value)}
              />
              {wrong('id') === undefined ? null : <small class="wrong">{wrong('id')}</small>}
            </label>
            <label>
              {t('when')}
              <select value={when} onChange={(event) => setWhen(event.currentTarget.value as When)}>
                <option value="default">{t('when_default', { time: chosen?.delay ?? '–' })}</option>
                <option value="in">{t('when_in')}</option>
                <option value="at">{t('when_at')}</option>
              </select>
            </label>
            {when === 'default' ? (
              <span />
            ) : (
              <label>
                {t(when === 'in' ? 'when_in' : 'when_at')}
                <input
                  class={(wrong('delay') ?? wrong('at')) ? 'mono bad' : 'mono'}
                  value={time}
                  placeholder={when === 'in' ? '10m' : '2030-01-01T08:00:00+08:00'}
                  onInput={(event) => setTime(event.currentTarget.value)}
                />
                <small>{wrong('delay') ?? wrong('at') ?? previewOf(when, time)}</small>
              </label>
            )}
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
              <textarea rows={10} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
              {!isJsonType ? null : isJson(body) ? (
                <small class="ok">{t('valid_json')}</small>
              ) : (
                <small class="wrong">{t('invalid_json', { detail: jsonMistake(body) })}</small>
              )}
            </label>
            {error === null ? null : (
              <p class="wide wrong" role="alert">
                {error.code === 'unknown' || error.status === 0 ? t('unknown_result') : error.message}
              </p>
            )}
            <div class="wide fields">
              <button type="submit" class="btn main" disabled={busy || topic === ''}>
                {t(result === null ? 'push' : 'push_another')}
              </button>
            </div>
          </form>
        </Card>
        <div class="c5 stack">
          <Card title={t('request_as_curl')} end={<CopyButton text={curl} label={t('copy')} />}>
            <div class="body">
              <pre class="code wrap" tabIndex={0}>
                {curl}
              </pre>
            </div>
          </Card>
          {result === null ? null : (
            <Card title={t('done')}>
              <div class="body stack" role="status">
                <p>
                  {t('pushed_result', {
                    clock: clock(Date.parse(result.dueAt)),
                    time: relative(Date.parse(result.dueAt)),
                  })}
                </p>
                <p>
                  <a class="mono" href={href('jobs', result.topic, result.id)}>
                    {t('view_job')}: {result.id}
                  </a>
                </p>
              </div>
            </Card>
          )}
        </div>
      </div>
    </>
  );
}

function previewOf(when: When, text: string): string {
  const at = when === 'in' ? daemonNow() + (durationMs(text) ?? Number.NaN) : Date.parse(text);
  return Number.isNaN(at) ? '' : `${t('due')} ${clock(at)}`;
}

function jsonMistake(text: string): string {
  try {
    JSON.parse(text);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

/** For a POSIX shell. The address of the API is not the console's. */
function curlOf(topic: string, query: Record<string, string>, contentType: string, body: string): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  const parameters = new URLSearchParams(query).toString();
  const url = `http://127.0.0.1:6789${topicPath(topic === '' ? 'TOPIC' : topic, 'jobs')}${parameters === '' ? '' : `?${parameters}`}`;
  return [
    `curl -X POST ${quoted(url)}`,
    ...(contentType === '' ? [] : [`  -H ${quoted(`content-type: ${contentType}`)}`]),
    `  --data-binary ${quoted(body)}`,
  ].join(' \\\n');
}
