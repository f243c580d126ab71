// Alerts: open incidents, the mails due for dead letters, and who receives them. Sends a test mail.

import { useState } from 'preact/hooks';
import { CallError, call, get } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { may, session } from '../api/session.ts';
import type { Page, TopicJson } from '../api/types.ts';
import { number, relative } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { type Incident, IncidentState, isOpen } from '../parts/incidents.tsx';
import {
  Card,
  type Colour,
  Empty,
  errorText,
  Failure,
  Head,
  Icon,
  JobLink,
  LoadError,
  More,
  Pill,
  TopicLink,
  toast,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { place, setQuery } from '../router.ts';
import { t, type Word, wordOf } from '../words/words.ts';

interface Alert {
  readonly topic: string;
  readonly id: string;
  readonly version: string;
  readonly deadAt: string;
  readonly attempt: number;
  readonly lastReason: string | null;
  readonly status: number | null;
  readonly state: 'owed' | 'claimed' | 'sent' | 'nobody';
}

interface Alerts extends Page<Alert> {
  readonly incidents: readonly Incident[];
  readonly mail?: {
    readonly server: boolean;
    readonly addresses: readonly string[];
    readonly hooks: readonly string[];
    readonly defaultHooks: readonly string[];
  };
}

const states = ['owed', 'claimed', 'sent', 'nobody'] as const;
const colours: Readonly<Record<Alert['state'], Colour>> = {
  owed: 'retry',
  claimed: 'running',
  sent: 'done',
  nobody: 'quiet',
};

export function Alerts() {
  const poll = usePoll<Alerts>('/v1/alerts', 5_000, { limit: '100' });
  const { data } = poll;
  const { value } = session;
  const hasChannel = data?.mail?.server !== false || data.mail.hooks.length > 0;
  const mayTest = may('admin') && hasChannel;
  return (
    <>
      <Head
        title={t('alerts')}
        sub={value.kind === 'signed_in' ? t('alerts_sub', { host: value.me.host }) : undefined}
        {...(mayTest
          ? {
              actions: (
                <button type="button" class="btn" onClick={askTest}>
                  {t('send_test_mail')}…
                </button>
              ),
            }
          : {})}
      />
      <LoadError error={poll.error} what={t('alerts')} retry={poll.refresh} />
      {!hasChannel ? (
        <div class="strip info" role="note">
          <Icon name="alerts" />
          <span class="text">{t('no_mail_server')}</span>
        </div>
      ) : null}
      {data === null ? (
        <Waiting rows={6} error={poll.error} />
      ) : (
        <>
          <Incidents incidents={data.incidents} />
          <Recipients global={[...(data.mail?.addresses ?? []), ...(data.mail?.defaultHooks ?? [])]} />
          <Outbox first={data} />
        </>
      )}
    </>
  );
}

function Incidents({ incidents }: { incidents: readonly Incident[] }) {
  const wantsAll = place.value.query.has('all');
  const shown = wantsAll ? incidents : incidents.filter((one) => isOpen(one, incidents));
  return (
    <Card
      title={t(wantsAll ? 'incidents' : 'open_incidents')}
      end={
        <button
          type="button"
          class={wantsAll ? 'field on' : 'field'}
          aria-pressed={wantsAll}
          onClick={() => setQuery({ all: wantsAll ? '' : '1' })}
        >
          {t('with_ended')}
        </button>
      }
    >
      {shown.length === 0 ? (
        <Empty>{t(wantsAll ? 'no_incidents_ever' : 'no_incidents')}</Empty>
      ) : (
        <>
          <table class="desk">
            <thead>
              <tr>
                <th>{t('incident')}</th>
                <th>{t('state')}</th>
                <th class="right">{t('since')}</th>
                <th>{t('emailed')}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((one) => (
                <tr key={`${one.at} ${one.kind} ${one.about}`}>
                  <td class="text">
                    <span class="two">
                      {wordOf(`incident_${one.kind}`, one.kind)}
                      <small>{[one.about, one.detail].filter((part) => part !== '').join(' · ')}</small>
                    </span>
                  </td>
                  <td>
                    <IncidentState one={one} all={incidents} />
                  </td>
                  <td class="right soft">
                    <Time at={one.at} />
                  </td>
                  <td>{wordOf(`alert_${one.alert}`, one.alert)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <ul class="cards">
            {shown.map((one) => (
              <li key={`${one.at} ${one.kind} ${one.about}`}>
                <div class="row">
                  <span class="name grow">{wordOf(`incident_${one.kind}`, one.kind)}</span>
                  <IncidentState one={one} all={incidents} />
                </div>
                <p class="soft">{one.detail}</p>
                <div class="row faint">
                  <span class="num">
                    <Time at={one.at} text={relative} />
                  </span>
                  <span>{wordOf(`alert_${one.alert}`, one.alert)}</span>
                </div>
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  );
}

function Outbox({ first }: { first: Alerts }) {
  const [more, setMore] = useState<readonly Page<Alert>[]>([]);
  const [error, setError] = useState<string | null>(null);
  const wanted = place.value.query.get('state') ?? '';
  const all = [first, ...more].flatMap(({ items }) => items);
  const shown = all.filter(({ state }) => wanted === '' || state === wanted);
  const { nextCursor } = more.at(-1) ?? first;
  // Counted are the rows that are read: "100+" while there are more.
  const isWhole = nextCursor === null;
  const next = async (): Promise<void> => {
    try {
      const page = await get<Page<Alert>>('/v1/alerts', { limit: '100', cursor: nextCursor ?? '' });
      setMore([...more, page]);
      setError(null);
    } catch (problem) {
      setError(errorText(problem));
    }
  };
  return (
    <Card
      title={t('outbox')}
      end={
        <span class="fields">
          {states.map((state) => {
            const count = all.filter((one) => one.state === state).length;
            if (count === 0 && wanted !== state) return null;
            return (
              <button
                type="button"
                key={state}
                class={wanted === state ? 'field on' : 'field'}
                aria-pressed={wanted === state}
                onClick={() => setQuery({ state: wanted === state ? '' : state })}
              >
                {t(`alert_${state}` as Word)}{' '}
                <b>
                  {number(count)}
                  {isWhole ? '' : '+'}
                </b>
              </button>
            );
          })}
        </span>
      }
    >
      {shown.length === 0 ? <Empty>{t('no_alerts')}</Empty> : <OutboxRows items={shown} />}
      <Failure text={error} place="nothing" />
      <More next={nextCursor === null ? null : () => void next()} />
    </Card>
  );
}

const reasonOf = ({ lastReason, status }: Alert): string =>
  [lastReason, status].filter((part) => part !== null).join(' ') || '–';

function OutboxRows({ items }: { items: readonly Alert[] }) {
  return (
    <>
      <table class="desk">
        <thead>
          <tr>
            <th>{t('dead_letter')}</th>
            <th>{t('topic')}</th>
            <th>{t('state')}</th>
            <th>{t('last_failure')}</th>
            <th class="right">{t('attempts')}</th>
            <th class="right">{t('since')}</th>
          </tr>
        </thead>
        <tbody>
          {items.map((alert) => (
            <tr key={`${alert.topic} ${alert.id} ${alert.version}`}>
              <td>
                <JobLink topic={alert.topic} id={alert.id} />
              </td>
              <td>
                <TopicLink topic={alert.topic} />
              </td>
              <td>
                <Pill colour={colours[alert.state]}>{wordOf(`alert_${alert.state}`, alert.state)}</Pill>
              </td>
              <td class="mono">{reasonOf(alert)}</td>
              <td class="right">{number(alert.attempt)}</td>
              <td class="right soft">
                <Time at={alert.deadAt} text={relative} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {items.map((alert) => (
          <li key={`${alert.topic} ${alert.id} ${alert.version}`}>
            <div class="row">
              <JobLink topic={alert.topic} id={alert.id} />
              <Pill colour={colours[alert.state]}>{wordOf(`alert_${alert.state}`, alert.state)}</Pill>
            </div>
            <div class="row faint">
              <span>{alert.topic}</span>
              <span class="num">
                <Time at={alert.deadAt} text={relative} />
              </span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}

function Recipients({ global }: { global: readonly string[] }) {
  const poll = usePoll<Page<TopicJson>>('/v1/topics', 15_000, { limit: '1000' });
  const topics = poll.data?.items.filter((topic) => recipientsOf(topic).length > 0) ?? [];
  return (
    <Card title={t('recipients')} note={t('recipients_note')}>
      <LoadError error={poll.error} what={t('topics')} retry={poll.refresh} />
      <table>
        <thead>
          <tr>
            <th>{t('topic')}</th>
            <th>{t('addresses')}</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <td>{t('every_alert')}</td>
            <td class="mono text">{global.length === 0 ? t('no_address') : global.join(', ')}</td>
          </tr>
          {topics.map((item) => (
            <tr key={item.topic}>
              <td>
                <TopicLink topic={item.topic} />
              </td>
              <td class="mono text">{recipientsOf(item).join(', ')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

const recipientsOf = ({ alertEmails, alertHooks }: TopicJson) => [...alertEmails, ...alertHooks];

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
