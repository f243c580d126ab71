// Processes of this instance: state, age, load, restarts. Reloads the daemon, and shows the last reload.

import { useState } from 'preact/hooks';
import type { ProcessJson, ReloadJson } from '../../../contract/api/daemon.ts';
import { type CallError, call } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may, me } from '../api/session.ts';
import { bytes, clock, dots, duration, number, useSecond } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { List } from '../parts/list.tsx';
import { Button, Card, type Colour, Facts, Head, LoadError, Pill, Strip } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';

const colours: Readonly<Record<ProcessJson['state'], Colour>> = {
  starting: 'delayed',
  ready: 'done',
  draining: 'retry',
};

/** Without a ready process of these roles dq delivers nothing. */
const vital = ['notifier', 'timer'] as const;
const runs = ({ role, alsoRuns = [] }: ProcessJson, wanted: string): boolean =>
  role === wanted || alsoRuns.includes(wanted);

export function Screen() {
  useSecond();
  const poll = usePoll<{ processes: readonly ProcessJson[] }>('/v1/processes', 5_000);
  const reload = usePoll<ReloadJson>(may('admin') ? '/v1/reload' : null, (state) =>
    state.running !== null || state.waiting ? 1_000 : 5_000,
  );
  const processes = poll.data?.processes ?? null;
  const missing =
    processes === null
      ? []
      : vital.filter((role) => !processes.some((one) => runs(one, role) && one.state === 'ready'));
  const isBusy = reload.data !== null && (reload.data.running !== null || reload.data.waiting);
  const button = (
    <Button icon="redo" disabled={isBusy} onClick={() => askReload(reload.refresh)}>
      {t('reload')}…
    </Button>
  );
  return (
    <>
      <Head
        title={t('processes')}
        sub={subOf(processes, reload.data)}
        actions={reload.data === null ? undefined : button}
      />
      <LoadError error={poll.error} what={t('processes')} retry={poll.refresh} />
      {missing.map((role) => (
        <Strip key={role} tone="bad" role="alert">
          {t(`no_${role}`)}
        </Strip>
      ))}
      {reload.data === null ? null : <ReloadState state={reload.data} />}
      <section class="card">
        <Table processes={processes} error={poll.error} />
      </section>
    </>
  );
}

function subOf(processes: readonly ProcessJson[] | null, reload: ReloadJson | null): string {
  const generation = processes?.find(({ role }) => role === 'master')?.generation;
  const last = reload?.last ?? null;
  return dots(
    me()?.host,
    generation !== undefined && t('generation_n', { n: generation }),
    last !== null &&
      last.outcome !== 'rejected' &&
      t('reloaded_at', {
        time: clock(Date.parse(last.endedAt)),
        duration: duration(Date.parse(last.endedAt) - Date.parse(last.startedAt)),
      }),
  );
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

function ReloadState({ state: { running, waiting, last, restart } }: { state: ReloadJson }) {
  if (running !== null || waiting)
    return (
      <Strip tone="info" icon="redo">
        <b>{t('reloading')}</b> {running?.lines.at(-1) ?? ''}
      </Strip>
    );
  const isWrong = last !== null && last.outcome !== 'reloaded';
  return (
    <>
      {isWrong ? (
        <Strip role="alert" isPre>
          <b>
            <Time
              at={last.endedAt}
              text={(ms) =>
                t(last.outcome === 'rejected' ? 'reload_rejected' : 'reload_partly', { time: clock(ms) })
              }
            />
          </b>{' '}
          {last.reason}
        </Strip>
      ) : null}
      {restart === null ? null : (
        <Strip tone="info" icon="redo" role="note">
          {restart}
        </Strip>
      )}
    </>
  );
}

const cpu = ({ cpuPercent }: ProcessJson): string => `${cpuPercent.toFixed(1)} %`;
const memory = ({ rssBytes }: ProcessJson): string => (rssBytes === 0 ? '–' : bytes(rssBytes));
const uptime = ({ startedAt }: ProcessJson): string => duration(daemonNow() - Date.parse(startedAt));
const hasWork = ({ role }: ProcessJson): boolean =>
  role !== 'master' && role !== 'timer' && role !== 'upkeep';

function State({ state }: ProcessJson) {
  return <Pill colour={colours[state]}>{t(`process_${state}`)}</Pill>;
}

function Restarts({ restarts }: ProcessJson) {
  return restarts === 0 ? <span class="faint">0</span> : <span class="tag warn">{number(restarts)}</span>;
}

function Table({ processes, error }: { processes: readonly ProcessJson[] | null; error: CallError | null }) {
  const [open, setOpen] = useState<number | null>(null);
  const working = (process: ProcessJson) =>
    hasWork(process) ? number(process.inFlight) : <span class="faint">–</span>;
  return (
    <List
      items={processes}
      error={error}
      rows={8}
      empty=""
      keyOf={({ pid }) => pid}
      columns={{
        process: { head: t('process'), look: 'mono', cell: ({ title }) => title },
        pid: { head: t('pid'), look: 'right soft spare', cell: ({ pid }) => pid },
        state: { head: t('state'), cell: State },
        uptime: { head: t('uptime'), look: 'right spare', cell: uptime },
        cpu: { head: t('cpu'), look: 'right', cell: cpu },
        memory: { head: t('memory'), look: 'right', cell: memory },
        inFlight: { head: t('in_flight'), look: 'right', cell: working },
        restarts: { head: t('restarts'), look: 'right', cell: Restarts },
        generation: { head: t('generation'), look: 'right soft extra', cell: ({ generation }) => generation },
        version: { head: t('version'), look: 'right faint extra', cell: ({ version }) => version },
      }}
      card={(process) => (
        <>
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
            <span>{`${t('cpu')}: ${dots(cpu(process), memory(process))}`}</span>
            <span>{`${t('uptime')}: ${uptime(process)}`}</span>
          </div>
          {open === process.pid ? <Opened {...process} /> : null}
        </>
      )}
    />
  );
}

/** What a card on a phone shows more of a process. */
const Opened = (process: ProcessJson) => (
  <Card look="body">
    <Facts
      rows={[
        [t('pid'), process.pid],
        [t('in_flight'), hasWork(process) ? number(process.inFlight) : '–'],
        [t('restarts'), number(process.restarts)],
        [t('generation'), process.generation],
        [t('version'), process.version],
      ]}
    />
  </Card>
);
