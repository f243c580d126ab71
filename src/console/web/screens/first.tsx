// First job: one button runs the trial of the console and shows each step until the request has arrived. Beside
// it the same in the reader's own code.

import { useEffect, useState } from 'preact/hooks';
import type { TrialJson } from '../../../contract/api/trial.ts';
import { CallError, call } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may, me, serverUrl, summary, topicCount } from '../api/session.ts';
import { duration, exactClock } from '../format.ts';
import { useAction } from '../parts/form.tsx';
import {
  Bar,
  Button,
  Card,
  Code,
  CopyButton,
  errorText,
  Failure,
  Head,
  Icon,
  LoadError,
  Pill,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { href } from '../router.ts';
import { t, wordOf } from '../words/words.ts';

type Trial = NonNullable<TrialJson['trial']>;
type Received = NonNullable<Trial['request']>;

export function Screen() {
  const poll = usePoll<TrialJson>('/v1/trial', ({ trial }) =>
    trial !== null && trial.request === null ? 500 : 5_000,
  );
  const trial = poll.data?.trial ?? null;
  const data = summary.value;
  const isFirst = data !== null && topicCount(data) === 0;
  return (
    <>
      <Head
        title={t('first_title')}
        sub={`${isFirst ? `${t('topics_empty')} ` : ''}${t('first_sub')}`}
        actions={
          may('admin') ? (
            <a class="btn plain" href={`${href('topics', 'new')}?create`}>
              {t('first_skip')}
            </a>
          ) : undefined
        }
      />
      <LoadError error={poll.error} what={t('trial')} retry={poll.refresh} />
      <div class="cols">
        <TrialCard trial={trial} refresh={poll.refresh} />
        <div class="c5 stack">
          <OwnCode server={trial?.serverUrl ?? serverUrl()} />
          <ConsoleAccess />
        </div>
      </div>
    </>
  );
}

function TrialCard({ trial, refresh }: { trial: Trial | null; refresh: () => void }) {
  const { busy, failure, run } = useAction((problem) =>
    problem instanceof CallError ? obstacle(problem) : String(problem),
  );
  const act = (method: 'POST' | 'DELETE') => run(() => call(method, '/v1/trial')).then(refresh);
  return (
    <Card
      width={7}
      title={t('trial')}
      note={t('trial_note', { topic: trial?.topic ?? 'trial.hello' })}
      end={trial === null ? undefined : <State {...trial} />}
      look="body stack"
    >
      <Steps trial={trial} />
      {trial?.failure == null ? null : (
        <Failure
          text={wordOf(`trial_failed_${trial.failure.reason}`, t('trial_failed', trial.failure as never))}
        />
      )}
      <Failure text={failure} />
      <div class="fields">
        {trial !== null && trial.request === null ? null : (
          <button
            type="button"
            class={trial === null ? 'btn main' : 'btn'}
            disabled={busy}
            onClick={() => void act('POST')}
          >
            <Icon name={trial === null ? 'play' : 'redo'} />
            {t(trial === null ? 'trial_run' : 'trial_again')}
          </button>
        )}
        {trial === null ? null : (
          <>
            <a class="btn" href={href('jobs', trial.topic, trial.id)}>
              {t('view_job')}
            </a>
            <Button look="plain" disabled={busy} onClick={() => act('DELETE')}>
              {t('trial_remove')}
            </Button>
          </>
        )}
      </div>
    </Card>
  );
}

/** What stops the trial, in the language of the page. */
function obstacle(error: CallError): string {
  return wordOf(`trial_${error.code}`, errorText(error));
}

/** ms until the job is due, drawn ten times a second while it is not. */
function useLeft(dueAt: number): number {
  const [left, setLeft] = useState(dueAt - daemonNow());
  const isOver = left <= 0;
  useEffect(() => {
    const look = (): void => setLeft(dueAt - daemonNow());
    look();
    if (isOver) return;
    const timer = setInterval(look, 100);
    return () => clearInterval(timer);
  }, [dueAt, isOver]);
  return Math.max(0, left);
}

function State({ dueAt, request, failure }: Trial) {
  const left = useLeft(Date.parse(dueAt));
  if (request !== null) return <Pill colour="done">{t('job_done')}</Pill>;
  if (failure !== null) return <Pill colour="retry">{t('job_retry')}</Pill>;
  if (left > 0) return <Pill colour="delayed">{t('due_in', { time: tenths(left) })}</Pill>;
  return <Pill colour="running">{t('job_reserved')}</Pill>;
}

const tenths = (ms: number): string => `${(Math.ceil(ms / 100) / 10).toFixed(1)} ${t('unit_s')}`;

function Steps({ trial }: { trial: Trial | null }) {
  const request = trial?.request ?? null;
  const server = trial?.serverUrl ?? serverUrl();
  return (
    <ol class="steps">
      <li class={trial === null ? '' : 'did'}>
        <strong>{t(trial === null ? 'step_topic_todo' : 'step_topic')}</strong>
        <span class="soft">
          {trial === null
            ? t('step_topic_how')
            : t('step_topic_text', { topic: trial.topic, url: trial.callbackUrl })}
        </span>
      </li>
      <li class={trial === null ? '' : 'did'}>
        <strong>{t(trial === null ? 'push_job' : 'step_push')}</strong>
        <Code>
          {`curl -X POST '${server}/v1/topics/trial.hello/jobs?delay=3s' \\\n` +
            `  -H 'content-type: application/json' -d '{"hello":"dq"}'`}
        </Code>
        {trial === null ? null : (
          <span class="faint break">
            {t('step_push_text', { id: trial.id, time: duration(trial.answeredMs) })}
          </span>
        )}
      </li>
      <li class={trial === null ? '' : request === null ? 'doing' : 'did'}>
        <strong>{t('step_wait')}</strong>
        {trial === null ? null : <Wait {...trial} />}
      </li>
      <li class={request === null ? '' : 'did'}>
        <strong>{t('job_done')}</strong>
        {request === null ? <span class="faint">{t('step_request_how')}</span> : <Request {...request} />}
      </li>
    </ol>
  );
}

function Wait({ acceptedAt, dueAt }: Trial) {
  const due = Date.parse(dueAt);
  const left = useLeft(due);
  const whole = Math.max(1, due - Date.parse(acceptedAt));
  return (
    <>
      <Bar share={1 - left / whole} colour="accent" label={t('op_left', { time: tenths(left) })} />
      <Time class="faint num" at={due} text={(ms) => `${t('due').toLowerCase()} ${exactClock(ms)}`} />
    </>
  );
}

function Request({ method, path, headers, body, latenessMs, signature, reason }: Received) {
  const head = headers.map(({ name, value }) => `${name}: ${value}`).join('\n');
  return (
    <>
      <div class="fields" role="status">
        <Pill colour="done">
          {latenessMs === null ? t('job_done') : t('late_by', { time: duration(latenessMs) })}
        </Pill>
        <Pill colour={signature === 'ok' ? 'done' : 'dead'}>
          {signature === 'ok' ? t('signature_ok') : t('signature_wrong', { reason: reason ?? signature })}
        </Pill>
      </div>
      <Code>{`${method} ${path}\n${head}\n\n${body}`}</Code>
      <span class="faint">{t('step_request_text')}</span>
    </>
  );
}

function OwnCode({ server }: { server: string }) {
  const [code, setCode] = useState<Language>('curl');
  const text = sampleOf(code, server);
  return (
    <Card
      title={t('own_code')}
      end={
        <>
          <span class="seg">
            {codes.map((one) => (
              <button key={one} type="button" aria-pressed={one === code} onClick={() => setCode(one)}>
                {one}
              </button>
            ))}
          </span>
          <CopyButton text={text} label={t('copy')} />
        </>
      }
      look="body stack"
    >
      <Code>{text}</Code>
      <p class="sentence">{t('own_code_text')}</p>
    </Card>
  );
}

function ConsoleAccess() {
  const who = me();
  if (who === null || !may('admin')) return null;
  return (
    <Card title={t('console_access')} look="body">
      <p class="sentence">
        {t(who.tokensExist ? 'access_by_token' : 'access_without_token')}{' '}
        <a href={href('access')}>{t(who.tokensExist ? 'access' : 'access_create')}</a>
        {t(who.tokensExist ? 'full_stop' : 'access_before')}
      </p>
    </Card>
  );
}

// A push in the reader's language. Each sample runs as it is, once the topic exists.

const codes = ['curl', 'PHP', 'Java', 'Node'] as const;
type Language = (typeof codes)[number];

/** `server`: address of the API, without a path. */
function sampleOf(code: Language, server: string): string {
  const url = `${server}/v1/topics/order.close/jobs?id=4711`;
  switch (code) {
    case 'curl':
      return `dq topic add order.close --callback http://10.0.0.8/close --delay 30m
curl -X POST '${url}' \\
  -H 'content-type: application/json' -d '{"order":4711}'`;
    case 'PHP':
      return `$reply = file_get_contents('${url}', false,
    stream_context_create(['http' => [
        'method' => 'POST',
        'header' => 'content-type: application/json',
        'content' => json_encode(['order' => 4711]),
        'timeout' => 10,
    ]]));`;
    case 'Java':
      return `var push = HttpRequest.newBuilder(URI.create("${url}"))
    .header("content-type", "application/json")
    .timeout(Duration.ofSeconds(10))
    .POST(BodyPublishers.ofString("{\\"order\\":4711}"))
    .build();
var reply = HttpClient.newHttpClient().send(push, BodyHandlers.ofString());`;
    case 'Node':
      return `const reply = await fetch('${url}', {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ order: 4711 }),
  signal: AbortSignal.timeout(10_000),
});`;
  }
}
