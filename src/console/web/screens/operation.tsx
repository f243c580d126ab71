// Operations: the last 100, and one with its progress, numbers and failed jobs.

import { usePoll } from '../api/poll.ts';
import { may } from '../api/session.ts';
import type { OperationJson } from '../api/types.ts';
import { clock, duration, number, relative } from '../format.ts';
import {
  askStop,
  filterText,
  isRunning,
  OperationMeter,
  OperationState,
  processed,
  progressText,
  titleOf,
} from '../parts/operations.tsx';
import {
  actorName,
  Card,
  Empty,
  Facts,
  Head,
  JobLink,
  LoadError,
  TopicLink,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { href, type Segments } from '../router.ts';
import { t } from '../words/words.ts';

export function Operations({ first }: Segments) {
  return first === undefined ? <List /> : <Operation key={first} id={first} />;
}

function List() {
  const poll = usePoll<{ items: readonly OperationJson[] }>('/v1/operations', ({ items }) =>
    items.some(isRunning) ? 1_000 : 5_000,
  );
  const items = poll.data?.items ?? null;
  return (
    <>
      <Head title={t('operations')} sub={t('op_sub')} />
      <LoadError error={poll.error} what={t('operations')} retry={poll.refresh} />
      <section class="card">
        {items === null ? (
          <Waiting error={poll.error} />
        ) : items.length === 0 ? (
          <Empty>{t('op_none')}</Empty>
        ) : (
          <>
            <table class="desk">
              <thead>
                <tr>
                  <th class="w4">{t('op_operation')}</th>
                  <th>{t('state')}</th>
                  <th class="right">{t('op_progress')}</th>
                  <th>{t('op_started_by')}</th>
                  <th class="right">{t('op_created')}</th>
                </tr>
              </thead>
              <tbody>
                {items.map((op) => (
                  <tr key={op.id}>
                    <td class="cut">
                      <a class="name" href={href('operations', op.id)}>
                        {titleOf(op.kind, op.filter.topic, op.matched)}
                      </a>{' '}
                      <span class="faint">{filterText(op)}</span>
                    </td>
                    <td>
                      <OperationState state={op.state} />
                    </td>
                    <td class="right nowrap">{numbers(op)}</td>
                    <td class="cut soft">{actorName(op.actor)}</td>
                    <td class="right soft nowrap">
                      <Time at={op.createdAt} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            <ul class="cards">
              {items.map((op) => (
                <li key={op.id}>
                  <div class="row">
                    <a class="name" href={href('operations', op.id)}>
                      {titleOf(op.kind, op.filter.topic, op.matched)}
                    </a>
                    <OperationState state={op.state} />
                  </div>
                  <div class="row faint">
                    <span class="num">{numbers(op)}</span>
                    <span class="num">
                      <Time at={op.createdAt} />
                    </span>
                  </div>
                </li>
              ))}
            </ul>
          </>
        )}
      </section>
    </>
  );
}

const numbers = (op: OperationJson): string =>
  op.matched === null
    ? number(processed(op))
    : t('op_done_of', { count: number(op.dryRun ? op.matched : processed(op)), of: number(op.matched) });

function Operation({ id }: { id: string }) {
  const poll = usePoll<OperationJson>(`/v1/operations/${encodeURIComponent(id)}`, (op) =>
    isRunning(op) ? 1_000 : 15_000,
  );
  const op = poll.data;
  if (poll.error?.code === 'operation_not_found')
    return <Head title={t('op_not_found')} sub={t('op_not_found_text')} />;
  if (op === null)
    return poll.error === null ? (
      <Waiting />
    ) : (
      <LoadError error={poll.error} what={t('operations')} retry={poll.refresh} />
    );
  const { topic } = op.filter;
  const about = filterText(op);
  const at = (time: string | null) =>
    time === null ? '–' : <Time at={time} text={(ms) => `${relative(ms)} · ${clock(ms)}`} />;
  return (
    <>
      <Head
        actions={
          isRunning(op) && may('operate') ? (
            <button type="button" class="btn danger" onClick={() => askStop(op, poll.refresh)}>
              {t('op_stop')}…
            </button>
          ) : undefined
        }
      >
        <div class="title">
          <h1>{titleOf(op.kind, topic, op.matched)}</h1>
          <OperationState state={op.state} />
        </div>
      </Head>
      <LoadError error={poll.error} what={t('operations')} retry={poll.refresh} />
      <section class="card progress" role="status" aria-label={t('op_progress')}>
        <span class="num all">{progressText(op)}</span>
        <OperationMeter op={op} />
        {op.problem === null ? null : (
          <p class="wrong all">
            {op.state === 'failed' ? op.problem : t('op_waits', { problem: op.problem })}
          </p>
        )}
      </section>
      <div class="cols">
        <Card title={t('op_numbers')} width={6}>
          <div class="body">
            <Facts
              rows={[
                [t('op_matched'), op.matched === null ? t('op_on_the_way') : number(op.matched)],
                [t('op_moved'), number(op.done)],
                [t('op_skipped'), number(op.skipped)],
                [t('op_not_moved'), number(op.failed)],
              ]}
            />
          </div>
        </Card>
        <Card title={t('details')} width={6}>
          <div class="body">
            <Facts
              rows={[
                [t('filter_topic'), topic === undefined ? op.topics.join(', ') : <TopicLink topic={topic} />],
                [t('op_filter'), about === '' ? t('op_everything') : about],
                ...(op.at === null ? [] : ([[t('due'), <Time key="at" at={op.at} />]] as const)),
                [t('op_pace'), paceText(op)],
                [t('op_started_by'), actorName(op.actor)],
                [t('op_started_at'), at(op.startedAt)],
                [t('op_ended_at'), at(op.endedAt)],
              ]}
            />
          </div>
        </Card>
      </div>
      <Card title={t('op_failures')} note={t('op_failures_note')}>
        {op.failures.length === 0 ? (
          <Empty>{t('op_no_failures')}</Empty>
        ) : (
          <>
            <table class="desk">
              <thead>
                <tr>
                  <th class="w4">{t('job')}</th>
                  <th>{t('topic')}</th>
                  <th>{t('op_error')}</th>
                </tr>
              </thead>
              <tbody>
                {op.failures.map((one) => (
                  <tr key={`${one.topic} ${one.id}`}>
                    <td class="cut">
                      <JobLink {...one} />
                    </td>
                    <td>
                      <TopicLink topic={one.topic} />
                    </td>
                    <td>
                      <span class="tag bad">{one.error}</span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            <ul class="cards">
              {op.failures.map((one) => (
                <li key={`${one.topic} ${one.id}`}>
                  <div class="row">
                    <JobLink {...one} />
                    <span class="tag bad">{one.error}</span>
                  </div>
                </li>
              ))}
            </ul>
          </>
        )}
      </Card>
    </>
  );
}

function paceText({ spread, rate, dryRun }: OperationJson): string {
  if (dryRun) return t('op_dry_run');
  if (spread !== null) return t('op_spread', { time: duration(spread) });
  return rate === null ? t('op_at_once') : t('op_per_second', { count: number(rate) });
}
