// Processes of this instance: state, age, load, restarts. Reloads the daemon, and shows the last reload.

import { useState } from 'preact/hooks';
import { call } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may, session } from '../api/session.ts';
import { bytes, clock, duration, number, useSecond } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { Card, type Colour, Facts, Head, Icon, LoadError, Pill, Waiting } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t, type Word, wordOf } from '../words/words.ts';

interface Process {
  readonly title: string;
  readonly role: string;
  readonly alsoRuns?: readonly string[];
  readonly pid: number;
  readonly version: string;
  readonly generation: number;
  readonly state: 'starting' | 'ready' | 'draining';
  readonly startedAt: string;
  readonly restarts: number;
  readonly inFlight: number;
  readonly rssBytes: number;
  readonly cpuPercent: number;
}

interface Reload {
  readonly running: { readonly startedAt: string; readonly lines: readonly string[] } | null;
  readonly waiting: boolean;
  readonly last: {
    readonly startedAt: string;
    readonly endedAt: string;
    readonly outcome: 'reloaded' | 'partly' | 'rejected';
    readonly reason: string | null;
    readonly lines: readonly string[];
    readonly generation: number;
  } | null;
  readonly generation: number;
  readonly restart: string | null;
}

const colours: Readonly<Record<Process['state'], Colour>> = {
  starting: 'delayed',
  ready: 'done',
  draining: 'retry',
};

/** Without a ready process of these roles dq delivers nothing. */
const vital = ['notifier', 'timer'] as const;
const runs = ({ role, alsoRuns = [] }: Process, wanted: string): boolean =>
  role === wanted || alsoRuns.includes(wanted);

export function Processes() {
  useSecond();
  const poll = usePoll<{ processes: readonly Process[] }>('/v1/processes', 5_000);
  const reload = usePoll<Reload>(may('admin') ? '/v1/reload' : null, (state) =>
    state.running !== null || state.waiting ? 1_000 : 5_000,
  );
  const processes = poll.data?.processes ?? null;
  const missing =
    processes === null
      ? []
      : vital.filter((role) => !processes.some((one) => runs(one, role) && one.state === 'ready'));
  const isBusy = reload.data !== null && (reload.data.running !== null || reload.data.waiting);
  const button = (
    <button type="button" class="btn" disabled={isBusy} onClick={() => askReload(reload.refresh)}>
      <Icon name="redo" />
      {t('reload')}…
    </button>
  );
  return (
    <>
      <Head
        title={t('processes')}
        sub={subOf(processes, reload.data)}
        {...(reload.data === null ? {} : { actions: button })}
      />
      <LoadError error={poll.error} what={t('processes')} retry={poll.refresh} />
      {missing.map((role) => (
        <div class="strip bad" role="alert" key={role}>
          <Icon name="warn" />
          <span class="text">{t(`no_${role}` as Word)}</span>
        </div>
      ))}
      {reload.data === null ? null : <ReloadState state={reload.data} />}
      <section class="card">
        {processes === null ? <Waiting rows={8} error={poll.error} /> : <Table processes={processes} />}
      </section>
    </>
  );
}

function subOf(processes: readonly Process[] | null, reload: Reload | null): string {
  const { value } = session;
  const generation = processes?.find(({ role }) => role === 'master')?.generation;
  const last = reload?.last ?? null;
  return [
    value.kind === 'signed_in' ? value.me.host : '',
    generation === undefined ? '' : t('generation_n', { n: generation }),
    last === null || last.outcome === 'rejected'
      ? ''
      : t('reloaded_at', {
          time: clock(Date.parse(last.endedAt)),
          duration: duration(Date.parse(last.endedAt) - Date.parse(last.startedAt)),
        }),
  ]
    .filter((part) => part !== '')
    .join(' · ');
}

function askReload(changed: () => void): void {
  ask({
    title: t('reload_question'),
    body: t('reload_text'),
    action: t('reload'),
    run: async () => {
      await call('POST', '/v1/reload');
      changed();
    },
  });
}

function ReloadState({ state: { running, waiting, last, restart } }: { state: Reload }) {
  if (running !== null || waiting)
    return (
      <div class="strip info" role="status">
        <Icon name="redo" />
        <span class="text">
          <b>{t('reloading')}</b> {running?.lines.at(-1) ?? ''}
        </span>
      </div>
    );
  const isWrong = last !== null && last.outcome !== 'reloaded';
  return (
    <>
      {isWrong ? (
        <div class="strip warn" role="alert">
          <Icon name="warn" />
          <span class="text pre">
            <b>
              <Time
                at={last.endedAt}
                text={(ms) =>
                  t(last.outcome === 'rejected' ? 'reload_rejected' : 'reload_partly', { time: clock(ms) })
                }
              />
            </b>{' '}
            {last.reason}
          </span>
        </div>
      ) : null}
      {restart === null ? null : (
        <div class="strip info" role="note">
          <Icon name="redo" />
          <span class="text">{restart}</span>
        </div>
      )}
    </>
  );
}

const cpu = ({ cpuPercent }: Process): string => `${cpuPercent.toFixed(1)} %`;
const memory = ({ rssBytes }: Process): string => (rssBytes === 0 ? '–' : bytes(rssBytes));
const uptime = ({ startedAt }: Process): string => duration(daemonNow() - Date.parse(startedAt));
const hasWork = ({ role }: Process): boolean => role !== 'master' && role !== 'timer' && role !== 'upkeep';

function State({ state }: Process) {
  return <Pill colour={colours[state]}>{wordOf(`process_${state}`, state)}</Pill>;
}

function Restarts({ restarts }: Process) {
  return restarts === 0 ? <span class="faint">0</span> : <span class="tag warn">{number(restarts)}</span>;
}

function Table({ processes }: { processes: readonly Process[] }) {
  const [open, setOpen] = useState<number | null>(null);
  return (
    <>
      <table class="desk">
        <thead>
          <tr>
            <th>{t('process')}</th>
            <th class="right">{t('pid')}</th>
            <th>{t('state')}</th>
            <th class="right">{t('uptime')}</th>
            <th class="right">{t('cpu')}</th>
            <th class="right">{t('memory')}</th>
            <th class="right">{t('in_flight')}</th>
            <th class="right">{t('restarts')}</th>
            <th class="right">{t('generation')}</th>
            <th class="right">{t('version')}</th>
          </tr>
        </thead>
        <tbody>
          {processes.map((process) => (
            <tr key={process.pid}>
              <td class="mono">{process.title}</td>
              <td class="right soft">{process.pid}</td>
              <td>
                <State {...process} />
              </td>
              <td class="right">{uptime(process)}</td>
              <td class="right">{cpu(process)}</td>
              <td class="right">{memory(process)}</td>
              <td class="right">
                {hasWork(process) ? number(process.inFlight) : <span class="faint">–</span>}
              </td>
              <td class="right">
                <Restarts {...process} />
              </td>
              <td class="right soft">{process.generation}</td>
              <td class="right faint">{process.version}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {processes.map((process) => (
          <li key={process.pid}>
            <button
              type="button"
              class="row plain-row"
              aria-expanded={open === process.pid}
              onClick={() => setOpen(open === process.pid ? null : process.pid)}
            >
              <span class="name mono grow">{process.title}</span>
              {process.restarts > 0 ? <Restarts {...process} /> : null}
              <State {...process} />
            </button>
            <div class="row faint num">
              <span>
                {cpu(process)} · {memory(process)}
              </span>
              <span>{uptime(process)}</span>
            </div>
            {open === process.pid ? (
              <Card>
                <div class="body">
                  <Facts
                    rows={[
                      [t('pid'), process.pid],
                      [t('in_flight'), hasWork(process) ? number(process.inFlight) : '–'],
                      [t('restarts'), number(process.restarts)],
                      [t('generation'), process.generation],
                      [t('version'), process.version],
                    ]}
                  />
                </div>
              </Card>
            ) : null}
          </li>
        ))}
      </ul>
    </>
  );
}
