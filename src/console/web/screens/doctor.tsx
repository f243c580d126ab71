// Doctor: runs the checks of `dq doctor` in dq-console, and lists the findings, worst first.

import { useEffect } from 'preact/hooks';
import type { DoctorJson } from '../../../contract/api/trial.ts';
import { call } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, me } from '../api/session.ts';
import { clock, duration, useSecond } from '../format.ts';
import { useAction } from '../parts/form.tsx';
import { List } from '../parts/list.tsx';
import {
  Button,
  Card,
  type Colour,
  Empty,
  Failure,
  Head,
  LoadError,
  Pill,
  Strip,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { langOf, language, serverParts, serverText, t } from '../words/words.ts';

type State = DoctorJson['findings'][number]['state'];
/** The gravest first, as the list shows them. */
const colours: Readonly<Record<State, Colour>> = {
  failed: 'dead',
  warning: 'retry',
  unknown: 'quiet',
  ok: 'done',
};

/** Findings are not read again for this time. */
const freshMs = 60_000;

export function Screen() {
  useSecond();
  const poll = usePoll<DoctorJson>('/v1/doctor', (run) => (run.state === 'running' ? 1_000 : 10_000));
  const { failure, run } = useAction();
  const { data, refresh } = poll;
  const isRunning = data?.state === 'running';
  const check = async (): Promise<void> => {
    await call('POST', '/v1/doctor');
    refresh();
  };
  // Findings of an hour ago say nothing of now; those of a minute ago do, and each run is recorded.
  const isRead = data !== null;
  useEffect(() => {
    if (data === null || data.state === 'running') return;
    if (Date.parse(data.endedAt ?? '') > daemonNow() - freshMs) return;
    void run(check);
  }, [isRead]);
  return (
    <>
      <Head
        title={t('doctor')}
        sub={
          data === null ? (
            t('doctor_sub')
          ) : (
            <>
              {me()?.host} · {subOf(data)}
            </>
          )
        }
        actions={
          <Button look="main" disabled={isRunning} onClick={() => run(check)}>
            {t('run_checks')}
          </Button>
        }
      />
      <LoadError error={poll.error} what={t('doctor')} retry={refresh} />
      <Failure text={failure} />
      {data === null ? <Waiting error={poll.error} /> : <Findings run={data} />}
    </>
  );
}

function subOf({ state, startedAt, endedAt }: DoctorJson) {
  if (state === 'none') return t('doctor_sub');
  if (state === 'running') return t('checks_running');
  const [from, to] = [Date.parse(startedAt ?? ''), Date.parse(endedAt ?? '')];
  const text = (ms: number) => t('last_run', { time: clock(ms), duration: duration(to - ms) });
  return <Time at={from} text={text} />;
}

function About({ code, values, about }: DoctorJson['findings'][number]) {
  const key = `finding_${code}`;
  const text = serverText(key, about, values);
  if (language.value === 'en' || langOf(text, about) !== undefined)
    return <span lang={langOf(text, about)}>{text}</span>;
  // Names and messages of servers, between Chinese words.
  return (
    <span>
      {serverParts(key, values).map((part, n) =>
        n % 2 === 0 ? part : <span lang="en">{values[part]}</span>,
      )}
    </span>
  );
}

function Findings({ run: { state, findings } }: { run: DoctorJson }) {
  const sorted = (Object.keys(colours) as State[]).flatMap((one) =>
    findings.filter((finding) => finding.state === one),
  );
  const isFine = state === 'done' && findings.every((finding) => finding.state === 'ok');
  if (state === 'none')
    return (
      <Card>
        <Empty>{t('no_checks')}</Empty>
      </Card>
    );
  return (
    <>
      {state === 'late' ? <Strip role="alert">{t('checks_late')}</Strip> : null}
      {isFine ? (
        <Strip tone="info" icon="ok">
          {t('no_problems')}
        </Strip>
      ) : null}
      <Card>
        <List
          look="findings"
          items={sorted.length === 0 ? null : sorted}
          empty=""
          keyOf={({ check, about }) => `${check} ${about}`}
          columns={{
            result: {
              head: t('result'),
              cell: ({ state: one }) => <Pill colour={colours[one]}>{t(`finding_${one}`)}</Pill>,
            },
            check: {
              head: t('check'),
              cell: ({ check }) => serverText(`check_${check}`, check),
              card: ({ check }) => <span class="name grow">{serverText(`check_${check}`, check)}</span>,
            },
            finding: {
              head: t('finding'),
              look: 'text',
              cell: About,
            },
          }}
          card={{ row: ['check', 'result'], soft: ['finding'] }}
        />
      </Card>
    </>
  );
}
