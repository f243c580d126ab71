// Alerts: open incidents, the mails due for dead letters, and who receives them. Sends a test mail.

import { useState } from 'preact/hooks';
import type { AlertJson, AlertsJson, IncidentJson } from '../../../contract/api/alert.ts';
import type { PageOf } from '../../../contract/api/schema.ts';
import { alertStates } from '../../../core/job.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { CallError, call, get } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { may, me } from '../api/session.ts';
import { number, relative } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { useAction } from '../parts/form.tsx';
import { Incidents, isOpen } from '../parts/incidents.tsx';
import { List, timeColumn } from '../parts/list.tsx';
import {
  Button,
  Card,
  type Colour,
  Failure,
  Head,
  JobLink,
  LoadError,
  More,
  Pill,
  Strip,
  Toggle,
  TopicLink,
  toast,
  Waiting,
} from '../parts/parts.tsx';
import { place, setQuery } from '../router.ts';
import { t, type Word } from '../words/words.ts';

const colours: Readonly<Record<AlertJson['state'], Colour>> = {
  owed: 'retry',
  claimed: 'running',
  sent: 'done',
  nobody: 'quiet',
};

export function Screen() {
  const poll = usePoll<AlertsJson>('/v1/alerts', 5_000, { limit: '100' });
  const { data } = poll;
  const { host } = me() ?? {};
  const hasChannel = data?.mail?.server !== false || data.mail.hooks.length > 0;
  const mayTest = may('admin') && hasChannel;
  return (
    <>
      <Head
        title={t('alerts')}
        sub={host === undefined ? undefined : t('alerts_sub', { host })}
        actions={mayTest ? <Button onClick={askTest}>{t('send_test_mail')}…</Button> : undefined}
      />
      <LoadError error={poll.error} what={t('alerts')} retry={poll.refresh} />
      {!hasChannel ? (
        <Strip tone="info" icon="alerts" role="note">
          {t('no_mail_server')}
        </Strip>
      ) : null}
      {data === null ? (
        <Waiting rows={6} error={poll.error} />
      ) : (
        <>
          <IncidentCard incidents={data.incidents} />
          <Recipients global={[...(data.mail?.addresses ?? []), ...(data.mail?.defaultHooks ?? [])]} />
          <Outbox first={data} />
        </>
      )}
    </>
  );
}

function IncidentCard({ incidents }: { incidents: readonly IncidentJson[] }) {
  const wantsAll = place.value.query.has('all');
  const shown = wantsAll ? incidents : incidents.filter((one) => isOpen(one, incidents));
  return (
    <Card
      title={t(wantsAll ? 'incidents' : 'open_incidents')}
      end={
        <Toggle isOn={wantsAll} onClick={() => setQuery({ all: wantsAll ? '' : '1' })}>
          {t('with_ended')}
        </Toggle>
      }
    >
      <Incidents shown={shown} all={incidents} empty={t(wantsAll ? 'no_incidents_ever' : 'no_incidents')} />
    </Card>
  );
}

function Outbox({ first }: { first: AlertsJson }) {
  const [more, setMore] = useState<readonly PageOf<AlertJson>[]>([]);
  const { failure, run } = useAction();
  const wanted = place.value.query.get('state') ?? '';
  const all = [first, ...more].flatMap(({ items }) => items);
  const shown = all.filter(({ state }) => wanted === '' || state === wanted);
  const { nextCursor } = more.at(-1) ?? first;
  // Counted are the rows that are read: "100+" while there are more.
  const isWhole = nextCursor === null;
  const next = async (): Promise<void> => {
    const page = await get<PageOf<AlertJson>>('/v1/alerts', { limit: '100', cursor: nextCursor ?? '' });
    setMore([...more, page]);
  };
  return (
    <Card
      title={t('outbox')}
      note={first.total === undefined ? undefined : number(first.total)}
      end={
        <span class="fields">
          {alertStates.map((state) => {
            const count = all.filter((one) => one.state === state).length;
            if (count === 0 && wanted !== state) return null;
            return (
              <Toggle
                key={state}
                isOn={wanted === state}
                onClick={() => setQuery({ state: wanted === state ? '' : state })}
              >
                {t(`alert_${state}` as Word)}{' '}
                <b>
                  {number(count)}
                  {isWhole ? '' : '+'}
                </b>
              </Toggle>
            );
          })}
        </span>
      }
    >
      <OutboxRows items={shown} />
      <Failure text={failure} place="nothing" />
      <More next={nextCursor === null ? null : () => void run(next)} />
    </Card>
  );
}

const OutboxRows = ({ items }: { items: readonly AlertJson[] }) => (
  <List
    items={items}
    empty={t('no_alerts')}
    keyOf={({ topic, id, version }) => `${topic} ${id} ${version}`}
    columns={{
      job: { head: t('dead_letter'), look: 'cut id', width: 'w4', cell: JobLink },
      topic: { head: t('topic'), cell: TopicLink, card: ({ topic }) => topic },
      state: {
        head: t('state'),
        cell: ({ state }) => <Pill colour={colours[state]}>{t(`alert_${state}`)}</Pill>,
      },
      failure: {
        head: t('last_failure'),
        look: 'mono',
        cell: ({ lastReason, status }) =>
          [lastReason, status].filter((part) => part !== null).join(' ') || '–',
      },
      attempts: { head: t('attempts'), look: 'right extra', cell: ({ attempt }) => number(attempt) },
      since: timeColumn(t('since'), 'deadAt', 'right soft', relative),
    }}
    card={{ row: ['job', 'state'], faint: ['topic', 'since'] }}
  />
);

function Recipients({ global }: { global: readonly string[] }) {
  const poll = usePoll<PageOf<TopicJson>>('/v1/topics', 15_000, { limit: '1000' });
  const topics = (poll.data?.items ?? [])
    .map(({ topic, alertEmails, alertHooks }) => ({ topic, addresses: [...alertEmails, ...alertHooks] }))
    .filter(({ addresses }) => addresses.length > 0);
  return (
    <Card title={t('recipients')} note={t('recipients_note')}>
      <LoadError error={poll.error} what={t('topics')} retry={poll.refresh} />
      <List
        items={[{ topic: '', addresses: global }, ...topics]}
        empty=""
        keyOf={({ topic }) => topic}
        columns={{
          topic: {
            head: t('topic'),
            cell: ({ topic }) =>
              topic === '' ? <span>{t('every_alert')}</span> : <TopicLink topic={topic} />,
          },
          addresses: {
            head: t('addresses'),
            look: 'mono text',
            cell: ({ addresses }) => (
              <span class="mono text">{addresses.length === 0 ? t('no_address') : addresses.join(', ')}</span>
            ),
          },
        }}
        card={{ row: ['topic'], soft: ['addresses'] }}
      />
    </Card>
  );
}

function askTest(): void {
  ask({
    title: t('test_mail_question'),
    body: t('test_mail_text'),
    action: t('send_test_mail'),
    input: { label: t('mail_address'), hint: 'ops@example.org', value: '' },
    run: async (to) => {
      try {
        await call('POST', '/v1/alerts/test', { json: { to } });
        toast(t('test_mail_sent', { to }));
      } catch (error) {
        if (!(error instanceof CallError) || (error.code !== 'smtp_failed' && error.code !== 'hook_failed'))
          throw error;
        throw new CallError(error.status, 'shown', t(error.code, { reply: error.message }));
      }
    },
  });
}
