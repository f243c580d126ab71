// Access: tokens and sessions. A created token is shown once.

import { useState } from 'preact/hooks';
import { CallError, call, replaceSession } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, type Scope, session, signInAndStay } from '../api/session.ts';
import { number, relative, useSecond } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import {
  Card,
  CopyButton,
  Empty,
  errorText,
  Failure,
  Head,
  LoadError,
  toast,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t, type Word } from '../words/words.ts';

interface Token {
  readonly name: string;
  readonly id: string;
  readonly scopes: readonly Scope[];
  readonly topics: readonly string[];
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
  readonly expiresAt: string | null;
}

interface Session {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly topics: readonly string[];
  readonly signedInBy: 'token' | 'link' | 'machine';
  readonly address: string;
  readonly usedAt: string;
  readonly endsAt: string;
}

const scopes: readonly Scope[] = ['read', 'push', 'pull', 'operate', 'admin'];
const lives = ['', '7d', '30d', '90d', '365d'] as const;

export function Access() {
  useSecond();
  const { value: state } = session;
  const isFirst = state.kind === 'signed_in' && !state.me.tokensExist;
  const tokens = usePoll<{ items: readonly Token[] }>('/v1/tokens', 10_000);
  const sessions = usePoll<{ items: readonly Session[] }>('/v1/sessions', 10_000);
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Head
        title={t('access')}
        actions={
          <button type="button" class="btn main" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {t('create_token')}…
          </button>
        }
      />
      {isOpen ? <NewToken isFirst={isFirst} changed={tokens.refresh} /> : null}
      <Card title={t('tokens')}>
        <LoadError error={tokens.error} what={t('tokens')} retry={tokens.refresh} />
        {tokens.data === null ? (
          <Waiting rows={2} error={tokens.error} />
        ) : tokens.data.items.length === 0 ? (
          <Empty>{t('no_tokens')}</Empty>
        ) : (
          <Tokens
            tokens={tokens.data.items}
            sessions={sessions.data?.items ?? []}
            changed={() => {
              tokens.refresh();
              sessions.refresh();
            }}
          />
        )}
      </Card>
      <Card title={t('sessions')}>
        <LoadError error={sessions.error} what={t('sessions')} retry={sessions.refresh} />
        {sessions.data === null ? (
          <Waiting rows={2} error={sessions.error} />
        ) : sessions.data.items.length === 0 ? (
          <Empty>{t('no_sessions')}</Empty>
        ) : (
          <Sessions sessions={sessions.data.items} changed={sessions.refresh} />
        )}
      </Card>
    </>
  );
}

/** `isFirst`: no token exists yet. It ends the session of this page, which signs in with it at once. */
function NewToken({ isFirst, changed }: { isFirst: boolean; changed: () => void }) {
  const [name, setName] = useState('');
  const [topics, setTopics] = useState('*');
  const [chosen, setChosen] = useState<ReadonlySet<Scope>>(new Set([isFirst ? 'admin' : 'read']));
  const [life, setLife] = useState<(typeof lives)[number]>('');
  const [made, setMade] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const create = async (): Promise<void> => {
    setError(null);
    if (isFirst && !chosen.has('admin')) return setError(t('first_token_admin'));
    const make = async (): Promise<void> => {
      const json = {
        name,
        scopes: scopes.filter((scope) => chosen.has(scope)),
        topics: topics.split(',').map((topic) => topic.trim()),
        ...(life === '' ? {} : { expiresIn: life }),
      };
      const { token } = await call<{ token: string }>('POST', '/v1/tokens', { json });
      setMade(token);
      setName('');
      if (isFirst) await signInAndStay(token);
    };
    try {
      await (isFirst ? replaceSession(make) : make());
      changed();
    } catch (problem) {
      setError(
        problem instanceof CallError && problem.code === 'token_exists'
          ? t('token_exists')
          : errorText(problem),
      );
    }
  };
  return (
    <Card title={t('create_token')}>
      <form
        class="body form"
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <label>
          {t('name')}
          <input
            class="mono"
            value={name}
            autocomplete="off"
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <label>
          {t('topics_glob')}
          <input
            class="mono"
            value={topics}
            autocomplete="off"
            onInput={(event) => setTopics(event.currentTarget.value)}
          />
        </label>
        <label>
          {t('expires_after')}
          <select
            value={life}
            onChange={(event) => setLife(event.currentTarget.value as (typeof lives)[number])}
          >
            {lives.map((one) => (
              <option key={one} value={one}>
                {t(one === '' ? 'expires_never' : (`expires_${one}` as Word))}
              </option>
            ))}
          </select>
        </label>
        <fieldset>
          <legend>{t('scopes')}</legend>
          <div class="wide fields">
            {scopes.map((scope) => (
              <label key={scope} class="field">
                <input
                  type="checkbox"
                  checked={chosen.has(scope)}
                  onChange={() => {
                    const next = new Set(chosen);
                    if (!next.delete(scope)) next.add(scope);
                    setChosen(next);
                  }}
                />
                {scope}
              </label>
            ))}
          </div>
        </fieldset>
        {isFirst ? <p class="wide soft">{t('first_token_note')}</p> : null}
        <Failure text={error} place="wide" />
        {made === null ? null : (
          <div class="wide title" role="status">
            <pre class="code wrap" tabIndex={0}>
              {made}
            </pre>
            <CopyButton text={made} label={t('copy')} />
            <b>{t('token_created')}</b>
          </div>
        )}
        <div class="wide fields">
          <button type="submit" class="btn main" disabled={name === '' || chosen.size === 0}>
            {t('create_token')}
          </button>
        </div>
      </form>
    </Card>
  );
}

/** Sessions end with the token that they came from; they have its name. */
function sessionsOf({ name }: Token, sessions: readonly Session[]): number {
  return sessions.filter((one) => one.signedInBy === 'token' && one.name === name).length;
}

function askRemove(token: Token, ending: number, isLast: boolean, changed: () => void): void {
  const { name } = token;
  const consequence =
    ending === 0 ? t('remove_token_text') : t('remove_token_sessions', { count: number(ending) });
  ask({
    title: t('remove_token_question', { name }),
    body: `${consequence}${isLast ? ` ${t('remove_last_token_text')}` : ''}`,
    action: t('remove'),
    danger: true,
    run: async () => {
      await call('DELETE', `/v1/tokens/${encodeURIComponent(name)}`);
      toast(t('done'));
      changed();
    },
  });
}

function LastUsed({ lastUsedAt }: Token) {
  if (lastUsedAt === null) return <span class="faint">{t('never_used')}</span>;
  return <Time at={lastUsedAt} text={relative} />;
}

function Expires({ expiresAt }: Token) {
  if (expiresAt === null) return <span class="faint">{t('expires_never')}</span>;
  const at = Date.parse(expiresAt);
  if (at <= daemonNow()) return <span class="tag bad">{t('expired')}</span>;
  return <Time at={at} text={relative} />;
}

function Tokens({
  tokens,
  sessions,
  changed,
}: {
  tokens: readonly Token[];
  sessions: readonly Session[];
  changed: () => void;
}) {
  const remove = (token: Token) => (
    <button
      type="button"
      class="btn s danger"
      onClick={() => askRemove(token, sessionsOf(token, sessions), tokens.length === 1, changed)}
    >
      {t('remove')}…
    </button>
  );
  return (
    <>
      <table class="desk">
        <thead>
          <tr>
            <th>{t('name')}</th>
            <th>{t('scopes')}</th>
            <th>{t('topics')}</th>
            <th>ID</th>
            <th class="right">{t('created')}</th>
            <th class="right">{t('last_used')}</th>
            <th class="right">{t('expires')}</th>
            <th class="right">
              <span class="sr">{t('actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map((token) => (
            <tr key={token.id}>
              <td>{token.name}</td>
              <td>{token.scopes.join(' ')}</td>
              <td class="mono">{token.topics.join(' ')}</td>
              <td class="mono faint">{token.id}</td>
              <td class="right soft">
                <Time at={token.createdAt} />
              </td>
              <td class="right soft">
                <LastUsed {...token} />
              </td>
              <td class="right soft">
                <Expires {...token} />
              </td>
              <td class="right">{remove(token)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {tokens.map((token) => (
          <li key={token.id}>
            <div class="row">
              <b>{token.name}</b>
              {remove(token)}
            </div>
            <div class="row soft">
              <span>{token.scopes.join(' ')}</span>
              <span class="mono">{token.topics.join(' ')}</span>
            </div>
            <div class="row faint">
              <span>
                {t('last_used')}: <LastUsed {...token} />
              </span>
              <span>
                {t('expires')}: <Expires {...token} />
              </span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}

function Sessions({ sessions, changed }: { sessions: readonly Session[]; changed: () => void }) {
  const [error, setError] = useState<string | null>(null);
  const end = (session: Session) => (
    <button
      type="button"
      class="btn s"
      onClick={() => {
        call('DELETE', `/v1/sessions/${encodeURIComponent(session.id)}`).then(
          () => {
            setError(null);
            changed();
          },
          (problem: unknown) => setError(errorText(problem)),
        );
      }}
    >
      {t('sign_out')}
    </button>
  );
  return (
    <>
      <Failure text={error} place="nothing" />
      <table class="desk">
        <thead>
          <tr>
            <th>{t('name')}</th>
            <th>{t('scopes')}</th>
            <th>{t('signed_in_by')}</th>
            <th>{t('address')}</th>
            <th>{t('last_used')}</th>
            <th>{t('ends')}</th>
            <th class="right">
              <span class="sr">{t('actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sessions.map((session) => (
            <tr key={session.id}>
              <td>{session.name}</td>
              <td>{session.scopes.join(' ')}</td>
              <td>{t(`by_${session.signedInBy}` as Word)}</td>
              <td class="mono">{session.address}</td>
              <td class="soft">
                <Time at={session.usedAt} text={relative} />
              </td>
              <td class="soft">
                <Time at={session.endsAt} />
              </td>
              <td class="right">{end(session)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {sessions.map((session) => (
          <li key={session.id}>
            <div class="row">
              <b>{session.name}</b>
              {end(session)}
            </div>
            <div class="row soft">
              <span>{t(`by_${session.signedInBy}` as Word)}</span>
              <span class="mono">{session.address}</span>
            </div>
            <div class="row faint">
              <span>
                {t('last_used')}: <Time at={session.usedAt} text={relative} />
              </span>
              <span>
                {t('ends')}: <Time at={session.endsAt} />
              </span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
