// The journal on the page Store: spool, lag, instances and restores, and the question that starts a restore.

import { signal } from '@preact/signals';
import { hasNews } from '../../../core/restore-news.ts';
import { CallError } from '../api/call.ts';
import { may } from '../api/session.ts';
import { bytes, duration, number, relative } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { start } from '../parts/operations.tsx';
import { Card, type Colour, Facts, Meter, Pill } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';

interface Restore {
  readonly no: number;
  readonly kind: 'heal' | 'lost_shard' | 'shipped';
  readonly about: string;
  readonly state: 'open' | 'done' | 'failed';
  readonly put: number;
  readonly removed: number;
  readonly begunAt: string;
  readonly endedAt: string | null;
}

interface Instance {
  readonly instance: string;
  readonly self: boolean;
  readonly host: string;
  readonly seenMs: number;
  readonly state: 'lives' | 'silent' | 'ended';
  readonly spoolBytes: number;
}

export interface JournalJson {
  readonly mode: 'off' | 'sync';
  readonly lagMs: number | null;
  readonly spoolBytes: number;
  readonly spoolBytesMax: number;
  readonly late: number;
  readonly damaged: number;
  readonly instances: readonly Instance[] | null;
  readonly restores: readonly Restore[] | null;
}

/** The newest ones; `dq journal` lists more. */
const restoresShown = 5;

export function Journal({ journal }: { journal: JournalJson }) {
  const { mode, spoolBytes, spoolBytesMax, late, damaged, lagMs, instances, restores } = journal;
  if (mode === 'off')
    return (
      <Card title={t('journal')} end={<Pill colour="retry">{t('journal_is_off')}</Pill>}>
        <p class="body">{t('journal_off')}</p>
      </Card>
    );
  const share = spoolBytes / spoolBytesMax;
  return (
    <Card
      title={t('journal')}
      note={t('journal_sync')}
      end={<Pill colour={share > 1 ? 'dead' : 'done'}>{mode}</Pill>}
    >
      <div class="body stack">
        <Meter
          share={share}
          colour={share > 0.75 ? 'dead' : share > 0.25 ? 'retry' : 'ready'}
          label={t('journal_spool', { used: bytes(spoolBytes), all: bytes(spoolBytesMax) })}
        />
        <Facts
          rows={[
            [t('journal_lag'), lagMs === null ? t('currently_unknown') : duration(lagMs)],
            ...(late > 0 ? ([[t('journal_late'), number(late)]] as const) : []),
            ...(damaged > 0 ? ([[t('journal_damaged'), number(damaged)]] as const) : []),
            ...(instances ?? []).map(
              (one) =>
                [one.self ? t('journal_here', { host: one.host }) : one.host, instanceText(one)] as const,
            ),
          ]}
        />
        {instances === null || restores === null ? <p class="wrong">{t('journal_no_mysql')}</p> : null}
        {may('operate') ? (
          <div class="fields">
            <button type="button" class="btn s" onClick={askRestore}>
              {t('journal_restore')}…
            </button>
          </div>
        ) : null}
      </div>
      {restores === null ? null : (
        <Restores restores={restores.filter((one) => hasNews(one, Date.now())).slice(0, restoresShown)} />
      )}
    </Card>
  );
}

const instanceText = ({ seenMs, spoolBytes, state }: Instance): string => {
  const sign = t('journal_instance', { time: duration(seenMs), bytes: bytes(spoolBytes) });
  return state === 'lives' ? sign : `${sign} · ${t(`journal_${state}`)}`;
};

const colours: Readonly<Record<Restore['state'], Colour>> = { open: 'running', done: 'done', failed: 'dead' };

const states = { open: 'op_state_running', done: 'op_state_finished', failed: 'op_state_failed' } as const;

function Restores({ restores }: { restores: readonly Restore[] }) {
  if (restores.length === 0) return null;
  const what = ({ kind, about }: Restore) => (
    <>
      {t(`journal_${kind}`)} <span class="mono faint">{about}</span>
    </>
  );
  const state = ({ state: its }: Restore) => <Pill colour={colours[its]}>{t(states[its])}</Pill>;
  const counts = ({ put, removed }: Restore) =>
    t('journal_counts', { put: number(put), removed: number(removed) });
  const when = ({ begunAt }: Restore) => <Time at={begunAt} text={relative} />;
  return (
    <>
      <table class="desk">
        <thead>
          <tr>
            <th class="w4">{t('journal_restores')}</th>
            <th>{t('state')}</th>
            <th class="right">{t('jobs')}</th>
            <th class="right">{t('op_started_at')}</th>
          </tr>
        </thead>
        <tbody>
          {restores.map((one) => (
            <tr key={one.no}>
              <td class="cut">{what(one)}</td>
              <td>{state(one)}</td>
              <td class="right nowrap">{counts(one)}</td>
              <td class="right soft nowrap">{when(one)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {restores.map((one) => (
          <li key={one.no}>
            <div class="row">
              <span>{what(one)}</span>
              {state(one)}
            </div>
            <div class="row faint">
              <span class="num">{counts(one)}</span>
              <span class="num">{when(one)}</span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}

const overdueChoices = ['fire', 'spread', 'skip'] as const;

function askRestore(): void {
  const topic = signal('');
  const isAll = signal(false);
  const overdue = signal<(typeof overdueChoices)[number]>('fire');
  const dryRun = signal(true);
  const scope = (all: boolean, label: string) => (
    <label>
      <input
        type="radio"
        name="scope"
        checked={isAll.value === all}
        onChange={() => {
          isAll.value = all;
        }}
      />{' '}
      {label}
    </label>
  );
  const Form = () => (
    <>
      <p>{t('journal_restore_text')}</p>
      <fieldset>
        <legend class="sr">{t('topic')}</legend>
        {scope(false, t('journal_one_topic'))}
        {may('admin') ? scope(true, t('journal_every_topic')) : null}
      </fieldset>
      {isAll.value ? null : (
        <label>
          {t('topic')}
          <input
            class="mono"
            value={topic.value}
            onInput={(event) => {
              topic.value = event.currentTarget.value;
            }}
          />
        </label>
      )}
      <label>
        {t('journal_overdue')}
        <select
          value={overdue.value}
          onChange={(event) => {
            overdue.value = event.currentTarget.value as (typeof overdueChoices)[number];
          }}
        >
          {overdueChoices.map((choice) => (
            <option key={choice} value={choice}>
              {t(`journal_overdue_${choice}`)}
            </option>
          ))}
        </select>
      </label>
      <fieldset>
        <legend class="sr">{t('journal_count_only')}</legend>
        <label>
          <input
            type="checkbox"
            checked={dryRun.value}
            onChange={() => {
              dryRun.value = !dryRun.value;
            }}
          />{' '}
          {t('journal_count_only')}
        </label>
      </fieldset>
    </>
  );
  ask({
    title: t('op_question', { title: t('journal_restore') }),
    body: <Form />,
    action: t('op_restore'),
    run: async () => {
      const name = topic.value.trim();
      if (!isAll.value && name === '') throw new CallError(400, 'shown', t('journal_topic_missing'));
      const filter = isAll.value ? {} : { topic: name };
      await start([
        { kind: 'restore', filter, overdue: overdue.value, ...(dryRun.value ? { dryRun: true } : {}) },
      ]);
    },
  });
}
