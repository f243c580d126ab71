// Operations: the last 100, and one with its progress, numbers and failed jobs.

import type { OperationJson } from '../../../contract/api/operation.ts';
import { usePoll } from '../api/poll.ts';
import { may } from '../api/session.ts';
import { clock, dots, duration, number, relative } from '../format.ts';
import { List, timeColumn } from '../parts/list.tsx';
import {
  askStop,
  filterText,
  isRunning,
  nameOf,
  OperationMeter,
  OperationState,
  processed,
  progressText,
} from '../parts/operations.tsx';
import {
  actorName,
  Button,
  Card,
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

export function Screen({ first }: Segments) {
  return first === undefined ? <AllOperations /> : <Operation key={first} id={first} />;
}

function AllOperations() {
  const poll = usePoll<{ items: readonly OperationJson[] }>('/v1/operations', ({ items }) =>
    items.some(isRunning) ? 1_000 : 5_000,
  );
  return (
    <>
      <Head title={t('operations')} sub={t('op_sub')} />
      <LoadError error={poll.error} what={t('operations')} retry={poll.refresh} />
      <section class="card">
        <List
          items={poll.data?.items ?? null}
          error={poll.error}
          empty={t('op_none')}
          keyOf={({ id }) => id}
          columns={{
            operation: {
              head: t('op_operation'),
              look: 'cut id',
              width: 'w4',
              cell: (op) => (
                <>
                  <Name {...op} /> <span class="faint">{filterText(op)}</span>
                </>
              ),
              card: (op) => <Name {...op} />,
            },
            state: { head: t('state'), cell: OperationState },
            progress: {
              head: t('op_progress'),
              look: 'right',
              cell: (op) => (isRunning(op) ? <Progress {...op} /> : numbers(op)),
            },
            by: { head: t('op_started_by'), look: 'cut soft', cell: ({ actor }) => actorName(actor) },
            created: timeColumn(t('created'), 'createdAt', 'right soft nowrap'),
            actions: {
              head: null,
              look: 'right nowrap',
              cell: (op) =>
                isRunning(op) && may('operate') ? (
                  <Button look="s" onClick={() => askStop(op, poll.refresh)}>
                    {t('op_stop')}…
                  </Button>
                ) : null,
            },
          }}
          card={{ row: ['operation', 'state'], faint: ['progress', 'created'], act: ['actions'] }}
        />
      </section>
    </>
  );
}

const Name = (op: OperationJson) => (
  <a class="name" href={href('operations', op.id)}>
    {nameOf(op)}
  </a>
);

const Progress = (op: OperationJson) => (
  <span class="two">
    {progressText(op)}
    <OperationMeter op={op} />
  </span>
);

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
  return (
    <>
      <Head
        actions={
          isRunning(op) && may('operate') ? (
            <Button look="danger" onClick={() => askStop(op, poll.refresh)}>
              {t('op_stop')}…
            </Button>
          ) : undefined
        }
      >
        <div class="title">
          <h1>{nameOf(op)}</h1>
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
      <Numbers {...op} />
      <Card title={t('op_failures')} note={t('op_failures_note')}>
        <List
          items={op.failures}
          empty={t('op_no_failures')}
          keyOf={(one) => `${one.topic} ${one.id}`}
          columns={{
            job: { head: t('job'), look: 'cut id', width: 'w4', cell: JobLink },
            topic: { head: t('topic'), cell: TopicLink },
            error: { head: t('op_error'), cell: ({ error }) => <span class="tag bad">{error}</span> },
          }}
          card={{ row: ['job', 'error'] }}
        />
      </Card>
    </>
  );
}

function Numbers(op: OperationJson) {
  const { topic } = op.filter;
  const at = (time: string | null) =>
    time === null ? '–' : <Time at={time} text={(ms) => dots(relative(ms), clock(ms))} />;
  return (
    <div class="cols">
      <Card title={t('jobs')} width={6} look="body">
        <Facts
          rows={[
            [t('op_matched'), op.matched === null ? t('op_on_the_way') : number(op.matched)],
            [t('op_moved'), number(op.done)],
            [t('op_skipped'), number(op.skipped)],
            [t('failed'), number(op.failed)],
          ]}
        />
      </Card>
      <Card title={t('details')} width={6} look="body">
        <Facts
          rows={[
            [t('topic'), topic === undefined ? op.topics.join(', ') : <TopicLink topic={topic} />],
            [t('op_filter'), filterText(op) || t('all')],
            op.at !== null && [t('due'), <Time key="at" at={op.at} />],
            [t('op_pace'), paceText(op)],
            [t('op_started_by'), actorName(op.actor)],
            [t('op_started_at'), at(op.startedAt)],
            [t('op_ended_at'), at(op.endedAt)],
          ]}
        />
      </Card>
    </div>
  );
}

function paceText({ spread, rate, dryRun }: OperationJson): string {
  if (dryRun) return t('op_dry_run');
  if (spread !== null) return t('op_spread', { time: duration(spread) });
  return rate === null ? t('op_at_once') : t('op_per_second', { count: number(rate) });
}
