// Doctor: runs the checks of `dq doctor` in dq-console, and lists the findings, worst first.

import { useState } from 'preact/hooks';
import { call } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { session } from '../api/session.ts';
import { clock, duration, useSecond } from '../format.ts';
import {
  Card,
  type Colour,
  Empty,
  errorText,
  Failure,
  Head,
  Icon,
  LoadError,
  Pill,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t, wordOf } from '../words/words.ts';

const states = ['failed', 'warning', 'unknown', 'ok'] as const;
type State = (typeof states)[number];

interface Run {
  readonly state: 'none' | 'running' | 'done' | 'late';
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly findings: readonly { readonly check: string; readonly state: State; readonly about: string }[];
}

const colours: Readonly<Record<State, Colour>> = {
  failed: 'dead',
  warning: 'retry',
  unknown: 'quiet',
  ok: 'done',
};

export function Doctor() {
  useSecond();
  const poll = usePoll<Run>('/v1/doctor', (run) => (run.state === 'running' ? 1_000 : 10_000));
  const [error, setError] = useState<string | null>(null);
  const { data, refresh } = poll;
  const isRunning = data?.state === 'running';
  const run = async (): Promise<void> => {
    try {
      await call('POST', '/v1/doctor');
      setError(null);
      refresh();
    } catch (problem) {
      setError(errorText(problem));
    }
  };
  return (
    <>
      <Head
        title={t('doctor')}
        sub={
          data === null ? (
            t('doctor_sub')
          ) : (
            <>
              {hostOf()}
              {subOf(data)}
            </>
          )
        }
        actions={
          <button type="button" class="btn main" disabled={isRunning} onClick={() => void run()}>
            {t('run_checks')}
          </button>
        }
      />
      <LoadError error={poll.error} what={t('doctor')} retry={refresh} />
      <Failure text={error} />
      {data === null ? <Waiting error={poll.error} /> : <Findings run={data} />}
    </>
  );
}

function hostOf(): string {
  const { value } = session;
  return value.kind === 'signed_in' ? `${value.me.host} · ` : '';
}

function subOf({ state, startedAt, endedAt }: Run) {
  if (state === 'none') return t('doctor_sub');
  if (state === 'running') return t('checks_running');
  const [from, to] = [Date.parse(startedAt ?? ''), Date.parse(endedAt ?? '')];
  const text = (ms: number) => t('last_run', { time: clock(ms), duration: duration(to - ms) });
  return <Time at={from} text={text} />;
}

function Findings({ run: { state, findings } }: { run: Run }) {
  const sorted = states.flatMap((one) => findings.filter((finding) => finding.state === one));
  const isFine = state === 'done' && findings.every((finding) => finding.state === 'ok');
  if (state === 'none')
    return (
      <Card>
        <Empty>{t('no_checks')}</Empty>
      </Card>
    );
  return (
    <>
      {state === 'late' ? (
        <div class="strip warn" role="alert">
          <Icon name="warn" />
          <span class="text">{t('checks_late')}</span>
        </div>
      ) : null}
      {isFine ? (
        <div class="strip info" role="status">
          <Icon name="ok" />
          <span class="text">{t('no_problems')}</span>
        </div>
      ) : null}
      <Card>
        {sorted.length === 0 ? <Waiting /> : null}
        {sorted.length === 0 ? null : (
          <>
            <table class="desk findings">
              <thead>
                <tr>
                  <th>{t('result')}</th>
                  <th>{t('check')}</th>
                  <th>{t('finding')}</th>
                </tr>
              </thead>
              <tbody>
                {sorted.map(({ check, state: one, about }, n) => (
                  <tr key={n}>
                    <td>
                      <Pill colour={colours[one]}>{wordOf(`finding_${one}`, one)}</Pill>
                    </td>
                    <td>{check}</td>
                    <td class="text" lang="en">
                      {about}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            <ul class="cards">
              {sorted.map(({ check, state: one, about }, n) => (
                <li key={n}>
                  <div class="row">
                    <span class="name grow">{check}</span>
                    <Pill colour={colours[one]}>{wordOf(`finding_${one}`, one)}</Pill>
                  </div>
                  <p class="soft" lang="en">
                    {about}
                  </p>
                </li>
              ))}
            </ul>
          </>
        )}
      </Card>
    </>
  );
}
