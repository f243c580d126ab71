// Processes of this instance: state, age, load, restarts.

import { usePoll } from '../api/poll.ts';
import { daemonNow } from '../api/session.ts';
import { duration, number } from '../format.ts';
import { type Colour, Head, LoadError, Pill, Waiting } from '../parts/parts.tsx';
import { t, wordOf } from '../words/words.ts';

interface Process {
  readonly title: string;
  readonly role: string;
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

const colours: Readonly<Record<Process['state'], Colour>> = {
  starting: 'delayed',
  ready: 'done',
  draining: 'retry',
};

export function Processes() {
  const poll = usePoll<{ processes: readonly Process[] }>('/v1/processes', 5_000);
  return (
    <>
      <Head title={t('processes')} sub={t('processes_sub')} />
      <LoadError error={poll.error} what={t('processes')} retry={poll.refresh} />
      <section class="card">{poll.data === null ? <Waiting /> : <Table {...poll.data} />}</section>
    </>
  );
}

const memory = ({ rssBytes }: Process): string => `${number(Math.round(rssBytes / 1_048_576))} MiB`;
const uptime = ({ startedAt }: Process): string => duration(daemonNow() - Date.parse(startedAt));

function State({ state }: Process) {
  return <Pill colour={colours[state]}>{wordOf(`process_${state}`, state)}</Pill>;
}

function Table({ processes }: { processes: readonly Process[] }) {
  return (
    <>
      <table class="desk">
        <thead>
          <tr>
            <th>{t('name')}</th>
            <th>{t('state')}</th>
            <th class="right">{t('pid')}</th>
            <th class="right">{t('generation')}</th>
            <th class="right">{t('uptime')}</th>
            <th class="right">{t('cpu')}</th>
            <th class="right">{t('memory')}</th>
            <th class="right">{t('in_flight')}</th>
            <th class="right">{t('restarts')}</th>
            <th class="right">{t('version')}</th>
          </tr>
        </thead>
        <tbody>
          {processes.map((process) => (
            <tr key={process.pid}>
              <td class="mono">{process.title}</td>
              <td>
                <State {...process} />
              </td>
              <td class="right">{process.pid}</td>
              <td class="right">{process.generation}</td>
              <td class="right">{uptime(process)}</td>
              <td class="right">{process.cpuPercent.toFixed(1)} %</td>
              <td class="right">{memory(process)}</td>
              <td class="right">{number(process.inFlight)}</td>
              <td class="right">{number(process.restarts)}</td>
              <td class="right faint">{process.version}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {processes.map((process) => (
          <li key={process.pid}>
            <div class="row">
              <span class="mono">{process.title}</span>
              <State {...process} />
            </div>
            <div class="row faint">
              <span class="num">{uptime(process)}</span>
              <span class="num">
                {process.cpuPercent.toFixed(1)} % · {memory(process)}
              </span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
